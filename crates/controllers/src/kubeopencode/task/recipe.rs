//! The Pod and the `ConfigMap` of a Task.

use std::collections::BTreeMap;

use api::kubeopencode::{Task, names};
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, Pod};
use kube::ResourceExt;

use super::Policy;
use super::observe::Present;
use crate::kubeopencode::host::{Host, agent_url};
use crate::kubeopencode::owner::owned;
use crate::pod::{Contexts, Invalid, Layer, Main, Problem, Recipe, Settings};

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
    let contexts = contexts(present, &settings)?;
    let config_map_name = names::task_config_map(&task.name_any());
    let recipe = Recipe {
        settings: &settings,
        system: &system,
        contexts: &contexts,
        config_map: &config_map_name,
        labels: labels(task),
        annotations: BTreeMap::new(),
        main: main(present, &settings, &contexts, &system.cluster_domain)?,
    };
    let template = recipe.template();
    let mut metadata = owned(task, names::task_pod(&task.name_any()), BTreeMap::new());
    let made = template.metadata.unwrap_or_default();
    metadata.labels.get_or_insert_default().extend(made.labels.unwrap_or_default());
    metadata.annotations = made.annotations;
    metadata.finalizers = Some(vec![names::TRACKING_FINALIZER.into()]);
    let pod = Pod { metadata, spec: template.spec, status: None };
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

fn contexts(present: &Present, settings: &Settings) -> Result<Contexts, Unready> {
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
    let contexts = Contexts::resolve(&settings.workspace, &namespace, &layers, description, &present.config_maps)?;
    if attaches { Ok(contexts.for_prompt(&settings.workspace)?) } else { Ok(contexts.with_config(settings)) }
}

fn main(present: &Present, settings: &Settings, contexts: &Contexts, cluster_domain: &str) -> Result<Main, Unready> {
    let task = &*present.task;
    let variable = |name: &str, value: String| EnvVar { name: name.into(), value: Some(value), value_from: None };
    let env =
        vec![variable("TASK_NAME", task.name_any()), variable("TASK_NAMESPACE", task.namespace().unwrap_or_default())];
    let base = Main { name: "agent", env, restart_policy: "Never", ..Main::default() };
    if let Some(command) = &settings.command {
        let image = settings.images.executor.clone();
        return Ok(Main { image, command: command.clone(), custom: true, ..base });
    }
    if task.spec.description.as_deref().unwrap_or_default().is_empty() {
        let problem = "is required: it is what the agent is asked to do (unless the host has a command of its own)";
        return Err(Problem::Invalid(format!("spec.description: {problem}")).into());
    }
    let files: Vec<String> = prompt_files(contexts, &settings.workspace).map(|file| quoted(&file)).collect();
    let prompt = format!("\"$(cat {})\"", files.join(" "));
    let title = quoted(&title(task));
    let (image, script) = if let Host::Agent(observed) = &present.host {
        let url = quoted(&agent_url(&observed.agent, cluster_domain));
        let script = format!("{LINK}\nexec /tools/opencode run --attach {url} --title {title} {prompt}");
        (settings.images.attach.clone(), script)
    } else {
        let script = format!("{LINK}\n{MODELS}\nexec /tools/opencode run --title {title} {prompt}");
        (settings.images.executor.clone(), script)
    };
    Ok(Main { image, command: vec!["sh".into(), "-c".into(), script], ..base })
}

/// The files that make the prompt, in their order: the request, and after it what a server could not read otherwise.
fn prompt_files(contexts: &Contexts, workspace: &str) -> impl Iterator<Item = String> {
    let task = format!("{workspace}/task.md");
    let more = Contexts::prompt_file(workspace);
    let has_more = contexts.files.iter().any(|file| file.path == more);
    std::iter::once(task).chain(has_more.then_some(more))
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
