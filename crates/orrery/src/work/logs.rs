//! `orrery logs`: the log of a Task, also after its Pod is gone.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::kubeopencode::{Task, TaskPhase};
use futures::{AsyncBufReadExt as _, TryStream, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, LogParams};
use kube::runtime::wait::await_condition;

use super::run::phase;
use crate::cluster::{self, Cluster};
use crate::style;

/// Whose log, and how.
#[derive(clap::Args)]
pub struct Options {
    /// The Task.
    task: String,
    /// Go on until it ends.
    #[arg(short, long)]
    follow: bool,
    /// The container; by default the agent's.
    #[arg(short, long, default_value = AGENT, value_name = "NAME")]
    container: String,
    #[command(flatten)]
    cluster: cluster::Options,
}

const AGENT: &str = "agent";
/// A log that goes on so long after its Task has ended is not waited for.
const AFTERWARDS: Duration = Duration::from_secs(10);

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = options.cluster.connect().await?;
    if options.follow {
        return follow(&cluster, &options.task).await;
    }
    let tasks: Api<Task> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let task = tasks.get(&options.task).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let name = task.status.as_ref().and_then(|status| status.pod_name.clone());
    let Some(name) = name else {
        bail!("Task {0} has not started; `orrery why task {0}` says why", options.task);
    };
    let parameters = LogParams { container: Some(options.container.clone()), ..LogParams::default() };
    match pods.logs(&name, &parameters).await {
        Ok(text) => Ok(anstream::stdout().lock().write_all(text.as_bytes())?),
        Err(kube::Error::Api(status)) if status.code == 404 => print_kept(&cluster, &task, &options.container),
        Err(error) => Err(error.into()),
    }
}

/// The log of a Pod that is gone.
fn print_kept(cluster: &Cluster, task: &Task, container: &str) -> anyhow::Result<()> {
    let Some(folder) = &cluster.logs else { bail!("the Pod is gone, and no logs are kept on this machine") };
    let archive = controllers::logs::Archive { directory: folder.clone() };
    let folder = archive.of(&cluster.namespace, &task.name_any(), &task.uid().unwrap_or_default());
    let file = folder.join(format!("{container}.log"));
    let text = std::fs::read(&file).with_context(|| format!("the Pod is gone, and {} is not there", file.display()))?;
    let mut output = anstream::stdout().lock();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        // Kept lines begin with the instant they were written.
        let content = line.iter().position(|byte| *byte == b' ').map_or(line, |space| &line[space + 1..]);
        output.write_all(content)?;
    }
    Ok(())
}

/// Prints the agent's log from its start to its end.
pub async fn follow(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let tasks: Api<Task> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    tell_if_queued(&tasks, name).await?;
    let started = |task: Option<&Task>| {
        task.is_none_or(|task| {
            matches!(phase(task), Some(TaskPhase::Running | TaskPhase::Completed | TaskPhase::Failed))
        })
    };
    let task = await_condition(tasks.clone(), name, started).await?;
    let task = task.with_context(|| format!("Task {name} was deleted"))?;
    let Some(pod) = task.status.and_then(|status| status.pod_name) else { return Ok(()) };
    // A Task is recorded as running before its Pod is there, and may end without it.
    let speaks = |pod: Option<&Pod>| pod.is_some_and(has_spoken);
    tokio::select! {
        spoken = await_condition(pods.clone(), &pod, speaks) => { spoken?; }
        over = await_condition(tasks.clone(), name, super::run::is_over) => { over?; }
    }
    let parameters = LogParams { container: Some(AGENT.into()), follow: true, ..LogParams::default() };
    let lines = match pods.log_stream(&pod, &parameters).await {
        Ok(stream) => stream.lines(),
        // A container that never ran has no log; the Task's end says why.
        Err(kube::Error::Api(status)) if status.code == 400 || status.code == 404 => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let given_up = async {
        // What is wrong with the Task itself is said by who waits for its end.
        let _ = super::run::end(&tasks, name).await;
        tokio::time::sleep(AFTERWARDS).await;
    };
    tokio::select! {
        printed = print(lines) => if let Err(error) = printed {
            style::say(format_args!("the log broke off: {error}"));
        },
        () = given_up => {}
    }
    Ok(())
}

/// Colours of the agent's are for terminals.
async fn print(mut lines: impl TryStream<Ok = String, Error = std::io::Error> + Unpin) -> std::io::Result<()> {
    while let Some(line) = lines.try_next().await? {
        writeln!(anstream::stdout().lock(), "{line}")?;
    }
    Ok(())
}

async fn tell_if_queued(tasks: &Api<Task>, name: &str) -> anyhow::Result<()> {
    let decided = |task: Option<&Task>| task.is_none_or(|task| phase(task).is_some());
    let task = await_condition(tasks.clone(), name, decided).await?;
    let conditions = task.and_then(|task| task.status).map(|status| status.conditions).unwrap_or_default();
    if let Some(queued) =
        conditions.into_iter().find(|condition| condition.type_ == "Queued" && condition.status == "True")
    {
        style::say(format_args!("waiting: {}", queued.message));
    }
    Ok(())
}

/// Whether the agent's container runs or has run, or the Pod is over.
fn has_spoken(pod: &Pod) -> bool {
    let status = pod.status.clone().unwrap_or_default();
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let agent = status.container_statuses.into_iter().flatten().find(|container| container.name == AGENT);
    let state = agent.and_then(|container| container.state).unwrap_or_default();
    over || state.running.is_some() || state.terminated.is_some()
}
