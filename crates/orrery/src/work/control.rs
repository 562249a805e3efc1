//! `orrery stop`, `suspend`, `resume`, `trigger`: a small change to one object.

use std::io::Write as _;

use api::kubeopencode::{Agent, CronTask, Task, names};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};

/// One object by name.
#[derive(clap::Args)]
pub struct Named {
    /// Its name.
    name: String,
    #[command(flatten)]
    cluster: cluster::Options,
}

/// An Agent or a CronTask by name.
#[derive(clap::Args)]
pub struct Kind {
    /// What kind of object.
    #[arg(value_enum)]
    kind: Pausable,
    #[command(flatten)]
    named: Named,
}

/// What can be suspended.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Pausable {
    /// Scale an Agent's server to nothing.
    Agent,
    /// Let a CronTask create no Tasks.
    #[value(alias = "cron")]
    Crontask,
}

/// Asks a Task to stop.
pub async fn stop(options: Named) -> anyhow::Result<()> {
    let cluster = options.cluster.connect().await?;
    change::<Task>(&cluster, &options.name, annotation(names::STOP_ANNOTATION)).await?;
    print(&format!("task/{} is stopping", options.name))
}

/// Asks a CronTask for a run now.
pub async fn trigger(options: Named) -> anyhow::Result<()> {
    let cluster = options.cluster.connect().await?;
    change::<CronTask>(&cluster, &options.name, annotation(names::TRIGGER_ANNOTATION)).await?;
    print(&format!("crontask/{} was triggered", options.name))
}

/// Suspends or resumes.
pub async fn suspend(options: Kind, suspend: bool) -> anyhow::Result<()> {
    let cluster = options.named.cluster.connect().await?;
    let name = &options.named.name;
    let patch = json!({ "spec": { "suspend": suspend } });
    let kind = match options.kind {
        Pausable::Agent => change::<Agent>(&cluster, name, patch).await.map(|()| "agent"),
        Pausable::Crontask => change::<CronTask>(&cluster, name, patch).await.map(|()| "crontask"),
    }?;
    print(&format!("{kind}/{name} {}", if suspend { "suspended" } else { "resumed" }))
}

fn annotation(name: &str) -> Value {
    json!({ "metadata": { "annotations": { name: "true" } } })
}

async fn change<K>(cluster: &Cluster, name: &str, patch: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// A line of data.
pub fn print(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}
