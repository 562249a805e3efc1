//! What to do about an Agent. Pure.

use api::kubeopencode::{Agent, AgentStatus, names};
use engine::{Conditions, Decision, Event, Failure, Outcome};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::objects;
use super::observe::Observed;
use super::standby::{Idle, idle};
use crate::kubeopencode::host::agent_url;
use crate::pod::{Settings, System};

/// Decides.
pub fn decide(observed: &Observed, system: &System, now: Timestamp) -> Decision {
    let agent = &*observed.host.agent;
    let mut decision = Decision::none();
    let template = agent.spec.template_ref.as_ref().map(|reference| reference.name.clone());
    decision.label(agent, [(names::TEMPLATE_LABEL, template)]);

    let settings = observed.host.blueprint().and_then(|blueprint| Settings::new(&blueprint, observed.cluster.as_ref()));
    let settings = match settings {
        Ok(settings) => settings,
        Err(invalid) => return failed(observed, decision, "Invalid", &invalid.to_string(), now),
    };
    let system = system.clone().with(observed.cluster.as_ref());
    let rest = rest(observed, now);
    let (objects, skipped) = match objects::build(observed, &settings, &system, i32::from(rest.replicas)) {
        Ok(built) => built,
        Err(problem) => return failed(observed, decision, "ContextError", &problem.to_string(), now),
    };
    match &objects.config_map {
        Some(config_map) => {
            // The cache knows only the names of ConfigMaps, so that the comparison is made here.
            let same = observed.config_map.as_ref().is_some_and(|present| present.data == config_map.data);
            if !same {
                decision.apply(config_map);
            }
        }
        None => {
            if let Some(stale) = &observed.config_map {
                decision.delete(&**stale);
            }
        }
    }
    for claim in objects.claims.iter().filter(|claim| !observed.claims.contains(&claim.name_any())) {
        decision.create(claim);
    }
    if let Some(token) = observed.new_token.as_ref().filter(|_| system.helps()) {
        decision.create(&objects::token(agent, token));
    }
    decision.apply(&objects.deployment).apply(&objects.service);
    if let Some(at) = rest.look_again {
        decision.look_again(at);
    }
    report(observed, &rest, &skipped, &system, decision, now)
}

/// Whether the server runs, and why not.
struct Rest {
    replicas: bool,
    /// `UserRequested`, `Standby` or `Active`.
    reason: &'static str,
    idle_since: Option<Timestamp>,
    look_again: Option<Timestamp>,
}

fn rest(observed: &Observed, now: Timestamp) -> Rest {
    let agent = &*observed.host.agent;
    let awake = Rest { replicas: true, reason: "Active", idle_since: None, look_again: None };
    if agent.spec.suspend == Some(true) {
        return Rest { replicas: false, reason: "UserRequested", ..awake };
    }
    let Some(standby) = &agent.spec.standby else { return awake };
    let status = agent.status.clone().unwrap_or_default();
    let connected = agent.annotations().get(names::LAST_CONNECTION_ANNOTATION).and_then(|time| time.parse().ok());
    let since = status.idle_since.map(|time| time.0);
    match idle(&standby.idle_timeout, observed.unfinished, connected, since, now) {
        Idle::No => awake,
        Idle::Since(since, until) => Rest { idle_since: Some(since), look_again: Some(until), ..awake },
        Idle::Asleep(since) => Rest { replicas: false, reason: "Standby", idle_since: Some(since), look_again: None },
    }
}

/// What the status says when the objects are as they should be.
fn report(
    observed: &Observed,
    rest: &Rest,
    skipped: &[String],
    system: &System,
    mut decision: Decision,
    now: Timestamp,
) -> Decision {
    let agent = &*observed.host.agent;
    let current = agent.status.clone().unwrap_or_default();
    let deployment = observed.deployment.as_ref().and_then(|deployment| deployment.status.clone()).unwrap_or_default();
    let ready = rest.replicas && deployment.ready_replicas.unwrap_or(0) > 0;
    let mut conditions = Conditions::new(&current.conditions, agent.metadata.generation, now);
    conditions.set("Ready", true, "Valid", "the Agent's objects are as declared");
    if !rest.replicas {
        conditions.set("ServerReady", false, "Suspended", "the server is scaled to nothing");
        conditions.remove("ServerHealthy");
    } else if ready {
        conditions.set("ServerReady", true, "DeploymentReady", "the server answers");
        conditions.set("ServerHealthy", true, "DeploymentHealthy", "the server answers");
    } else {
        let (reason, message) = trouble(&observed.pods);
        conditions.set("ServerReady", false, "DeploymentNotReady", message.clone());
        conditions.set("ServerHealthy", false, &reason, message);
    }
    let suspended_message = match rest.reason {
        "UserRequested" => "spec.suspend is true",
        "Standby" => "nobody needed it for spec.standby.idleTimeout; the next Task wakes it",
        _ => "the server runs",
    };
    conditions.set("Suspended", !rest.replicas, rest.reason, suspended_message);
    if skipped.is_empty() {
        conditions.remove("ContextsSkipped");
    } else {
        conditions.set("ContextsSkipped", true, "Optional", skipped.join("; "));
    }
    let status = AgentStatus {
        observed_generation: agent.metadata.generation,
        conditions: conditions.finish(),
        deployment_name: Some(names::deployment(&agent.name_any())),
        service_name: Some(agent.name_any()),
        url: Some(agent_url(agent, &system.cluster_domain)),
        ready,
        suspended: !rest.replicas,
        idle_since: rest.idle_since.map(Time),
        ..current.clone()
    };
    tell(agent, &current, &status, rest, &mut decision);
    decision.status(agent, agent.status.as_ref(), &status);
    decision
}

fn tell(agent: &Agent, before: &AgentStatus, after: &AgentStatus, rest: &Rest, decision: &mut Decision) {
    if before.deployment_name.is_none() {
        decision.event(Event::normal(agent, "DeploymentCreated", "Create", "created the server's Deployment"));
        decision.event(Event::normal(agent, "ServiceCreated", "Create", "created the server's Service"));
    }
    match (before.suspended, after.suspended) {
        (false, true) if rest.reason == "Standby" => {
            decision.event(Event::normal(agent, "StandbySuspended", "Suspend", "nobody needs it: suspended"));
        }
        (false, true) => {
            decision.event(Event::normal(agent, "UserSuspended", "Suspend", "suspended as spec.suspend says"));
        }
        (true, false) => {
            decision.event(Event::normal(agent, "Resumed", "Resume", "the server is started again"));
        }
        _ => {}
    }
    match (before.ready, after.ready) {
        (false, true) => {
            decision.event(Event::normal(agent, "Ready", "Serve", "the server answers"));
        }
        (true, false) if !after.suspended => {
            decision.event(Event::warning(agent, "NotReady", "Serve", "the server does not answer"));
        }
        _ => {}
    }
}

/// Why the server is not ready, in the words of its Pods.
pub(crate) fn trouble(pods: &[std::sync::Arc<Pod>]) -> (String, String) {
    let waiting = pods.iter().find_map(|pod| {
        let status = pod.status.clone()?;
        let containers =
            status.init_container_statuses.into_iter().flatten().chain(status.container_statuses.into_iter().flatten());
        containers.into_iter().find_map(|container| {
            let (waiting, name) = (container.state?.waiting?, container.name);
            let reason =
                waiting.reason.filter(|reason| reason != "PodInitializing" && reason != "ContainerCreating")?;
            let last = container.last_state.and_then(|last| last.terminated);
            let last = last.map(|last| format!(" (last exit code {})", last.exit_code)).unwrap_or_default();
            Some((reason, format!("container {name}: {}{last}", waiting.message.unwrap_or_default())))
        })
    });
    let unschedulable = || {
        pods.iter().find_map(|pod| {
            let conditions = pod.status.clone()?.conditions?;
            let condition = conditions.into_iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
            Some((condition.reason?, condition.message.unwrap_or_default()))
        })
    };
    waiting.or_else(unschedulable).unwrap_or_else(|| ("DeploymentNotReady".into(), "the server is starting".into()))
}

/// The Agent cannot be built: what runs keeps running, and the status says why nothing changes.
fn failed(observed: &Observed, mut decision: Decision, reason: &str, message: &str, now: Timestamp) -> Decision {
    let agent = &*observed.host.agent;
    let current = agent.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, agent.metadata.generation, now);
    let news = engine::condition::find(&current.conditions, "Ready").is_none_or(|known| known.message != message);
    conditions.set("Ready", false, reason, message);
    if observed.deployment.is_none() {
        conditions.set("ServerReady", false, reason, message);
    }
    if news {
        decision.event(Event::warning(agent, reason, "Build", message));
    }
    let status =
        AgentStatus { observed_generation: agent.metadata.generation, conditions: conditions.finish(), ..current };
    decision.status(agent, agent.status.as_ref(), &status);
    decision.outcome(Outcome::Waiting(message.to_owned()));
    decision
}

/// What to say when the API server refused a step.
pub(super) fn refused(observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
    failed(observed, Decision::none(), failure.reason, &failure.message, now)
}
