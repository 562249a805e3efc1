//! `orrery run`: a Task, its log as it comes, its result as the exit code.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::kubeopencode::{Agent, ContextItem, ContextType, Reference, Task, TaskPhase, TaskSpec};
use kube::ResourceExt;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;

use super::logs;
use crate::cluster::{self, Cluster};
use crate::style;

/// What to run, and where.
#[derive(clap::Args)]
pub struct Options {
    /// What the agent should do.
    #[arg(value_name = "WHAT")]
    description: String,
    /// The Agent that does it; may be left out when there is only one.
    #[arg(long, value_name = "NAME", conflicts_with = "template")]
    agent: Option<String>,
    /// Run it in a Pod of its own, made from this template.
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// A file that the agent should have in its workspace; may be repeated.
    #[arg(long = "context", value_name = "FILE")]
    contexts: Vec<PathBuf>,
    /// Name of the Task; made up when left out.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long it may run, e.g. 30m.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Only create it; print its name and leave.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    cluster: cluster::Options,
}

/// Runs it; the answer is whether the Task completed.
pub async fn run(options: Options) -> anyhow::Result<bool> {
    let cluster = options.cluster.connect().await?;
    let tasks: Api<Task> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let task = tasks.create(&PostParams::default(), &task(&options, &cluster).await?).await?;
    let name = task.name_any();
    if options.detach {
        super::control::print(&name)?;
        return Ok(true);
    }
    style::say(format_args!("Task {name} created; Ctrl-C leaves it running, `orrery stop {name}` stops it"));
    let follow = async {
        if let Err(error) = logs::follow(&cluster, &name).await {
            style::say(format_args!("the log cannot be followed: {error:#}"));
        }
        end(&tasks, &name).await
    };
    let ended = tokio::select! {
        ended = follow => ended?,
        _ = tokio::signal::ctrl_c() => {
            style::say(format_args!("Task {name} goes on; see it with `orrery logs {name} --follow`"));
            return Ok(true);
        }
    };
    let task = ended.with_context(|| format!("Task {name} was deleted"))?;
    let (phase, why) = result(&task);
    style::say(format_args!(
        "Task {name}: {phase:?}{}",
        if why.is_empty() { String::new() } else { format!(" ({why})") }
    ));
    Ok(phase == TaskPhase::Completed)
}

async fn task(options: &Options, cluster: &Cluster) -> anyhow::Result<Task> {
    let (agent, template) = match (&options.agent, &options.template) {
        (None, None) => (Some(only_agent(cluster).await?), None),
        (agent, template) => (agent.clone(), template.clone()),
    };
    let reference = |name: String| Reference { name };
    let contexts = options.contexts.iter().map(context).collect::<anyhow::Result<Vec<_>>>()?;
    let spec = TaskSpec {
        description: Some(options.description.clone()),
        contexts: (!contexts.is_empty()).then_some(contexts),
        agent_ref: agent.map(reference),
        template_ref: template.map(reference),
        timeout: options.timeout.clone().map(api::duration::Duration),
    };
    let mut task = Task::new("", spec);
    task.metadata = ObjectMeta { namespace: Some(cluster.namespace.clone()), ..ObjectMeta::default() };
    match &options.name {
        Some(name) => task.metadata.name = Some(name.clone()),
        None => task.metadata.generate_name = Some("task-".into()),
    }
    Ok(task)
}

async fn only_agent(cluster: &Cluster) -> anyhow::Result<String> {
    let agents: Api<Agent> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let names: Vec<String> = agents.list(&ListParams::default()).await?.iter().map(Agent::name_any).collect();
    match names.as_slice() {
        [only] => Ok(only.clone()),
        [] => bail!("there is no Agent in namespace {}: name a template with --template", cluster.namespace),
        names => bail!("there are several Agents, choose one with --agent: {}", names.join(", ")),
    }
}

fn context(file: &PathBuf) -> anyhow::Result<ContextItem> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = file.file_name().with_context(|| format!("{} is not a file", file.display()))?;
    let name = name.to_string_lossy().into_owned();
    Ok(ContextItem {
        name: Some(name.clone()),
        description: None,
        optional: None,
        type_: ContextType::Text,
        mount_path: Some(name),
        file_mode: None,
        text: Some(text),
        config_map: None,
        git: None,
        runtime: None,
        url: None,
    })
}

/// The Task when it has ended; nothing when it was deleted. A plane that is away for a while comes back.
pub async fn end(tasks: &Api<Task>, name: &str) -> anyhow::Result<Option<Task>> {
    loop {
        match await_condition(tasks.clone(), name, is_over).await {
            Ok(task) => return Ok(task),
            Err(error) if is_refused(&error) => return Err(error.into()),
            Err(error) => tracing::debug!(%error, "the plane does not answer"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Whether the API has answered, and will not change its mind.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut answers = causes.filter_map(|error| match error.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    });
    answers.any(|code| matches!(code, 401 | 403 | 404))
}

/// Whether a Task has ended, or is gone.
pub fn is_over(task: Option<&Task>) -> bool {
    task.is_none_or(|task| phase(task).is_some_and(TaskPhase::is_final))
}

pub fn phase(task: &Task) -> Option<TaskPhase> {
    task.status.as_ref().and_then(|status| status.phase)
}

pub fn result(task: &Task) -> (TaskPhase, String) {
    let conditions = task.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let told = conditions.into_iter().find(|condition| condition.type_ == "Failed" || condition.type_ == "Stopped");
    (phase(task).unwrap_or(TaskPhase::Failed), told.map(|condition| condition.message).unwrap_or_default())
}
