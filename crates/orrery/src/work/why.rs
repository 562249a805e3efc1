//! `orrery why`: one screen that says why something is not running, and what to do.

use std::fmt::Write as _;

use anyhow::Context as _;
use api::{kubeopencode, omnia};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::cluster;

/// What is asked about.
#[derive(clap::Args)]
pub struct Options {
    /// What kind of object.
    #[arg(value_enum)]
    kind: Kind,
    /// Its name.
    name: String,
    #[command(flatten)]
    cluster: cluster::Options,
}

/// Kinds that can be explained.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Kind {
    /// A Task.
    Task,
    /// An Agent.
    Agent,
    /// A CronTask.
    #[value(alias = "cron")]
    Crontask,
    /// An AgentTemplate.
    #[value(alias = "template")]
    Agenttemplate,
    /// An AgentRuntime.
    #[value(alias = "runtime")]
    Agentruntime,
    /// A PromptPack.
    #[value(alias = "pack")]
    Promptpack,
    /// A ToolRegistry.
    #[value(alias = "tools")]
    Toolregistry,
    /// An AgentPolicy.
    #[value(alias = "policy")]
    Agentpolicy,
    /// A Provider.
    Provider,
}

impl Kind {
    fn resource(self) -> ApiResource {
        match self {
            Self::Task => ApiResource::erase::<kubeopencode::Task>(&()),
            Self::Agent => ApiResource::erase::<kubeopencode::Agent>(&()),
            Self::Crontask => ApiResource::erase::<kubeopencode::CronTask>(&()),
            Self::Agenttemplate => ApiResource::erase::<kubeopencode::AgentTemplate>(&()),
            Self::Agentruntime => ApiResource::erase::<omnia::AgentRuntime>(&()),
            Self::Promptpack => ApiResource::erase::<omnia::PromptPack>(&()),
            Self::Toolregistry => ApiResource::erase::<omnia::ToolRegistry>(&()),
            Self::Agentpolicy => ApiResource::erase::<omnia::AgentPolicy>(&()),
            Self::Provider => ApiResource::erase::<omnia::Provider>(&()),
        }
    }

    /// The label of the Pods that belong to an object of the kind; nothing for kinds that have none.
    fn pods(self) -> Option<&'static str> {
        match self {
            Self::Task => Some(kubeopencode::names::TASK_LABEL),
            Self::Agent => Some(kubeopencode::names::AGENT_LABEL),
            Self::Agentruntime => Some("app.kubernetes.io/name=omnia-agent,app.kubernetes.io/instance"),
            _ => None,
        }
    }
}

/// Everything that is known, before it is put into words.
struct Facts {
    kind: String,
    object: Value,
    pods: Vec<Pod>,
    events: Vec<Event>,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = options.cluster.connect().await?;
    let resource = options.kind.resource();
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
    let object = api.get(&options.name).await.with_context(|| format!("{} {}", resource.kind, options.name))?;
    let pods = match options.kind.pods() {
        Some(label) => {
            let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
            pods.list(&ListParams::default().labels(&format!("{label}={}", options.name))).await?.items
        }
        None => Vec::new(),
    };
    let events = events(&cluster.client, &cluster.namespace, &object, &pods).await?;
    let facts = Facts { kind: resource.kind, object: serde_json::to_value(object)?, pods, events };
    super::control::print(explain(&facts).trim_end())
}

async fn events(client: &Client, namespace: &str, object: &DynamicObject, pods: &[Pod]) -> anyhow::Result<Vec<Event>> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let uids: Vec<Option<String>> = std::iter::once(object.uid()).chain(pods.iter().map(Pod::uid)).collect();
    let concerned = |event: &Event| event.regarding.as_ref().is_some_and(|regarding| uids.contains(&regarding.uid));
    let mut events: Vec<Event> = api.list(&ListParams::default()).await?.into_iter().filter(concerned).collect();
    events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    Ok(events.split_off(events.len().saturating_sub(8)))
}

/// The screen.
fn explain(facts: &Facts) -> String {
    let mut screen = String::new();
    let name = facts.object["metadata"]["name"].as_str().unwrap_or_default();
    let status = &facts.object["status"];
    let state = status["phase"].as_str().map_or_else(|| ready(status), str::to_owned);
    let _ = writeln!(screen, "{} {name}: {state}", facts.kind);
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let _ = writeln!(screen, "  {} is {} ({}): {}", text("type"), text("status"), text("reason"), text("message"));
    }
    for pod in &facts.pods {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_else(|| "unknown".into());
        let _ = writeln!(screen, "Pod {}: {phase}", pod.name_any());
        for line in containers(pod) {
            let _ = writeln!(screen, "  {line}");
        }
    }
    if !facts.events.is_empty() {
        screen.push_str("Events:\n");
    }
    for event in &facts.events {
        let time = event.event_time.as_ref().map(|time| time.0.strftime("%H:%M:%S").to_string()).unwrap_or_default();
        let (reason, note) = (event.reason.clone().unwrap_or_default(), event.note.clone().unwrap_or_default());
        let _ = writeln!(screen, "  {time} {reason}: {note}");
    }
    let _ = writeln!(screen, "What to do: {}", advice(facts));
    screen
}

fn ready(status: &Value) -> String {
    match (status["ready"].as_bool(), status["suspended"].as_bool()) {
        (_, Some(true)) => "suspended".into(),
        (Some(true), _) => "ready".into(),
        (Some(false), _) => "not ready".into(),
        (None, _) => "nothing is known yet".into(),
    }
}

/// What is worth saying about a Pod's containers.
fn containers(pod: &Pod) -> Vec<String> {
    let status = pod.status.clone().unwrap_or_default();
    let all =
        status.init_container_statuses.into_iter().flatten().chain(status.container_statuses.into_iter().flatten());
    all.filter_map(|container| {
        let state = container.state?;
        let name = container.name;
        if let Some(waiting) = state.waiting {
            let (reason, message) = (waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default());
            return Some(format!("{name} waits: {reason} {message}").trim_end().to_owned());
        }
        let ended = state.terminated.filter(|ended| ended.exit_code != 0)?;
        Some(format!("{name} ended with exit code {} ({})", ended.exit_code, ended.reason.unwrap_or_default()))
    })
    .collect()
}

/// The next step, from the reason that stands in the way.
fn advice(facts: &Facts) -> String {
    let conditions = facts.object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let name = facts.object["metadata"]["name"].as_str().unwrap_or_default();
    let reason = |type_: &str, status: &str| {
        let found = conditions.iter().find(|c| c["type"] == type_ && c["status"] == status)?;
        found["reason"].as_str().map(str::to_owned)
    };
    let agent = facts.object["spec"]["agentRef"]["name"].as_str().unwrap_or("NAME");
    let blocking = reason("Failed", "True")
        .or_else(|| reason("Queued", "True"))
        .or_else(|| reason("Ready", "False"))
        .or_else(|| reason("ServerHealthy", "False"))
        .or_else(|| reason("Suspended", "True"))
        .or_else(|| conditions.iter().find(|c| c["status"] == "False")?["reason"].as_str().map(str::to_owned));
    match blocking.as_deref() {
        None => "nothing, as far as can be seen".into(),
        Some("AgentAtCapacity") => format!("wait, or raise spec.maxConcurrentTasks of Agent {agent}"),
        Some("QuotaExceeded") => format!("wait, or raise spec.quota of Agent {agent}"),
        Some("AgentSuspended") => format!("orrery resume agent {agent}"),
        Some("AgentServerNotReady") => format!("orrery why agent {agent}"),
        Some("AgentError" | "ContextError" | "Invalid") => {
            "mend what the message names; it is looked at again by itself".into()
        }
        Some("PromptPackNotFound" | "ToolRegistryNotFound" | "ProviderNotFound" | "AgentPolicyNotFound") => {
            "apply what is missing; it is found by itself".into()
        }
        Some("VersionMismatch") => "write both: the version in the content and spec.version".into(),
        Some("SourceValidationFailed" | "SchemaValidationFailed") => {
            "mend the ConfigMap that the message names; agents keep the version they have".into()
        }
        Some("ForeignRuntime") => "use the built-in runtime for agents whose calls must be checked".into(),
        Some("Permissive") => "set spec.mode to enforce, if calls are to be refused".into(),
        Some("ScaledToZero") => "raise spec.runtime.replicas".into(),
        Some("UserRequested" | "Suspended") => format!("orrery resume {} {name}", facts.kind.to_lowercase()),
        Some("Standby") => "nothing: the next Task wakes it".into(),
        Some("ErrImagePull" | "ImagePullBackOff" | "InvalidImageName") => {
            "check the image's name; on this machine import it with `orrery image import`, or map it with --image-map"
                .into()
        }
        Some("MaxRetainedTasksReached") => {
            "delete finished Tasks, raise spec.maxRetainedTasks, or set cleanup in KubeOpenCodeConfig".into()
        }
        Some("InvalidSchedule") => "mend spec.schedule or spec.timeZone".into(),
        Some("PodLost") => {
            "the Pod was deleted or its node is gone; create the Task again if it is still wanted".into()
        }
        Some("OOMKilled") => "raise spec.podSpec.resources.limits.memory of the Agent or template".into(),
        Some(_) if facts.kind == "Task" => format!("orrery logs {name}"),
        Some(_) => "see the messages above".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(type_: &str, status: &str, reason: &str) -> Facts {
        let condition =
            json!({ "type": type_, "status": status, "reason": reason, "message": "all 1 slots are taken" });
        Facts {
            kind: "Task".into(),
            object: json!({ "metadata": { "name": "t" }, "spec": { "agentRef": { "name": "a" } },
                "status": { "phase": "Queued", "conditions": [condition] } }),
            pods: Vec::new(),
            events: Vec::new(),
        }
    }

    #[test]
    fn the_screen_names_the_reason_and_the_way_out() {
        let screen = explain(&task("Queued", "True", "AgentAtCapacity"));
        assert_eq!(
            screen,
            "Task t: Queued\n  Queued is True (AgentAtCapacity): all 1 slots are taken\n\
             What to do: wait, or raise spec.maxConcurrentTasks of Agent a\n"
        );
    }

    #[test]
    fn every_known_reason_has_advice_of_its_own() {
        for (type_, status, reason, expected) in [
            ("Queued", "True", "AgentSuspended", "orrery resume agent a"),
            ("Queued", "True", "AgentServerNotReady", "orrery why agent a"),
            ("Ready", "False", "ErrImagePull", "--image-map"),
            ("Failed", "True", "Error", "orrery logs t"),
            ("PromptPackReady", "False", "PromptPackNotFound", "apply what is missing"),
            ("VersionsAgree", "False", "VersionMismatch", "spec.version"),
        ] {
            let said = advice(&task(type_, status, reason));
            assert!(said.contains(expected), "{reason}: {said}");
        }
    }
}
