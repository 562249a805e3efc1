//! The Pod and the `ConfigMap` of a Task.

use std::collections::BTreeMap;

use api::kubeopencode::{ContextType, Task, names};
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, Pod};
use kube::ResourceExt;
use serde_json::json;

use super::Policy;
use super::observe::Present;
use crate::kubeopencode::agent::context_port;
use crate::kubeopencode::host::{Host, agent_url};
use crate::kubeopencode::owner::owned;
use crate::pod::{Contexts, Invalid, Layer, Main, Problem, Settings, System, Workplace, from_secret, variable};

/// Why a Task cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unready {
    #[error("{0}")]
    Host(#[from] Invalid),
    #[error("{0}")]
    Context(#[from] Problem),
}

impl Unready {
    /// The stable word for the condition.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Host(_) => "AgentError",
            Self::Context(_) => "ContextError",
        }
    }

    /// Whether it may get better by itself.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self, Self::Context(Problem::Invalid(_)))
    }
}

/// The title of the Task's session.
pub(super) fn title(task: &Task) -> String {
    names::session_title(&task.namespace().unwrap_or_default(), &task.name_any(), &task.uid().unwrap_or_default())
}

/// The objects of a Task that may start.
pub(super) fn objects(present: &Present, policy: &Policy) -> Result<(ConfigMap, Pod), Unready> {
    let task = &*present.task;
    let settings = present.host.settings(present.cluster.as_ref())?;
    let system = policy.system.clone().with(present.cluster.as_ref());
    let (contexts, brought) = contexts(present, &settings, &system)?;
    let config_map_name = names::task_config_map(&task.name_any());
    let workplace = Workplace {
        settings: &settings,
        system: &system,
        contexts: &contexts,
        config_map: &config_map_name,
        labels: labels(task),
        annotations: BTreeMap::new(),
        main: main(present, &settings, &system, &brought)?,
    };
    let mut metadata = owned(task, names::task_pod(&task.name_any()), BTreeMap::new());
    metadata.finalizers = Some(vec![names::TRACKING_FINALIZER.into()]);
    let pod = workplace.recipe().pod(metadata);
    let config_map = ConfigMap {
        metadata: owned(task, config_map_name.clone(), labels(task)),
        data: Some(contexts.data()),
        ..ConfigMap::default()
    };
    Ok((config_map, pod))
}

fn labels(task: &Task) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("app".to_owned(), "kubeopencode".to_owned()),
        (names::TASK_LABEL.to_owned(), task.name_any()),
    ]);
    if let Some(template) = &task.spec.template_ref {
        labels.insert(names::TEMPLATE_LABEL.into(), template.name.clone());
    }
    labels
}

/// Whether the agent that does the work is a server in another Pod.
fn attaches(present: &Present, settings: &Settings) -> bool {
    matches!(present.host, Host::Agent(_)) && settings.command.is_none()
}

/// Paths that a Task brings to an Agent's server, and whether each may be missing.
type Brought = Vec<(String, bool)>;

fn contexts(present: &Present, settings: &Settings, system: &System) -> Result<(Contexts, Brought), Unready> {
    let task = &*present.task;
    let attaches = attaches(present, settings);
    let (source, of_host) = present.host.contexts();
    // A server has its own contexts already.
    let of_host = if attaches { Vec::new() } else { of_host };
    let layers = [
        Layer { source: &source, items: &of_host },
        Layer { source: "spec.contexts", items: task.spec.contexts.as_deref().unwrap_or_default() },
    ];
    let namespace = task.namespace().unwrap_or_default();
    let description = task.spec.description.as_deref().filter(|text| !text.is_empty());
    let workspace = &settings.workspace;
    // The workspace of a server is shared: what has no place of its own goes to a directory of the Task's own.
    let relative = if attaches { own_directory(task, workspace) } else { workspace.clone() };
    let contexts = Contexts::resolve(workspace, &relative, &namespace, &layers, description, &present.config_maps)?;
    if !attaches {
        return Ok((contexts.with_config(settings), Vec::new()));
    }
    let (contexts, brought) = contexts.for_prompt(workspace, &request(task, description.unwrap_or_default()))?;
    if !brought.is_empty() && !system.helps() {
        return Err(Problem::Invalid(format!(
            "spec.contexts: {} cannot be brought to a running Agent, because the controller has no --helper-image: set \
             it, declare the context in the Agent, or use templateRef",
            brought[0].0
        ))
        .into());
    }
    Ok((contexts, brought))
}

/// What an Agent's server is asked. It has no variables of this Task; one that asks to be told where it is gets their
/// values.
fn request(task: &Task, description: &str) -> String {
    let wants = task.spec.contexts.iter().flatten().any(|context| context.type_ == ContextType::Runtime);
    if !wants {
        return description.to_owned();
    }
    let (name, namespace) = (task.name_any(), task.namespace().unwrap_or_default());
    format!("{description}\n\nFor this task TASK_NAME is {name} and TASK_NAMESPACE is {namespace}.")
}

/// Where on an Agent's server a Task's relative paths begin.
fn own_directory(task: &Task, workspace: &str) -> String {
    let name = names::task_on_server(&task.name_any(), &task.uid().unwrap_or_default());
    format!("{workspace}/{}/{name}", names::TASK_DIRECTORIES)
}

fn main(present: &Present, settings: &Settings, system: &System, brought: &Brought) -> Result<Main, Unready> {
    let task = &*present.task;
    let mut env =
        vec![variable("TASK_NAME", task.name_any()), variable("TASK_NAMESPACE", task.namespace().unwrap_or_default())];
    if let Some(command) = &settings.command {
        let image = settings.images.executor.clone();
        let base = Main { name: "agent", env, restart_policy: "Never", ..Main::default() };
        return Ok(Main { image, command: command.clone(), custom: true, ..base });
    }
    if task.spec.description.as_deref().unwrap_or_default().is_empty() {
        let problem = "is required: it is what the agent is asked to do (unless the host has a command of its own)";
        return Err(Problem::Invalid(format!("spec.description: {problem}")).into());
    }
    let workspace = &settings.workspace;
    let title = title(task);
    let (image, prelude, prompt, words) = if let Host::Agent(observed) = &present.host {
        let url = quoted(&agent_url(&observed.agent, &system.cluster_domain));
        let words = format!("/tools/opencode run --attach {url} --title {}", quoted(&title));
        (&settings.images.attach, LINK.to_owned(), Contexts::prompt_file(workspace), words)
    } else {
        let words = format!("/tools/opencode run --title {}", quoted(&title));
        (&settings.images.executor, format!("{LINK}\n{MODELS}"), format!("{workspace}/task.md"), words)
    };
    // By standard input: an argument has a limit, and the agent puts quotes around one with spaces.
    let script = if system.helps() {
        env.extend(helper(present, settings, system, brought));
        env.push(variable("PROMPT_FILE", prompt));
        format!("{prelude}\nexec /tools/kubeopencode agent-run -- {words}")
    } else {
        format!("{prelude}\nexec {words} < {}", quoted(&prompt))
    };
    let command = vec!["sh".into(), "-c".into(), script];
    Ok(Main { name: "agent", image: image.clone(), command, env, restart_policy: "Never", ..Main::default() })
}

/// What our binary beside the agent has to know.
fn helper(present: &Present, settings: &Settings, system: &System, brought: &Brought) -> Vec<EnvVar> {
    let task = &*present.task;
    let Host::Agent(observed) = &present.host else {
        // The agent ends with its Pod: what it knows about the session must be asked before.
        return vec![variable("SESSION_TITLE", title(task)), variable("SESSION_EXPORT", "true")];
    };
    let agent = &observed.agent;
    let mut env =
        vec![variable("SESSION_TITLE", title(task)), variable("AGENT_URL", agent_url(agent, &system.cluster_domain))];
    if brought.is_empty() {
        return env;
    }
    let (name, namespace) = (agent.name_any(), agent.namespace().unwrap_or_default());
    let (port, domain) = (context_port(agent, settings), &system.cluster_domain);
    let own = names::task_on_server(&task.name_any(), &task.uid().unwrap_or_default());
    let items: Vec<_> = brought.iter().map(|(path, optional)| json!({ "path": path, "optional": optional })).collect();
    env.extend([
        variable("CONTEXT_URL", format!("http://{name}.{namespace}.svc.{domain}:{port}/tasks/{own}")),
        from_secret("CONTEXT_TOKEN", &names::context_secret(&name), names::CONTEXT_TOKEN_KEY, false),
        variable("CONTEXT_ITEMS", json!(items).to_string()),
    ]);
    env
}

/// The agent starts itself again by name now and then.
const LINK: &str = "ln -sf /tools/opencode /usr/local/bin/opencode 2>/dev/null";
/// A fresh installation knows only the models of its release day.
const MODELS: &str =
    "[ -n \"$OPENCODE_DISABLE_MODELS_FETCH\" ] || timeout 20 /tools/opencode models --refresh >/dev/null 2>&1";

/// A word for `sh` that means exactly this text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
