//! `orrery deploy`: packs of prompts, planned, applied, looked at and torn down; and the same as an adapter for others.

pub mod adapter;
mod input;
mod progress;
mod render;
mod verbs;

use std::path::PathBuf;
use std::process::ExitCode;

use api::duration::Duration;
use clap::{Args, Subcommand, ValueEnum};

/// What to do with a deployment.
#[derive(Subcommand)]
pub enum Verb {
    /// Say what an apply would do, field by field; nothing is written.
    Plan {
        #[command(flatten)]
        common: Common,
        /// Write the plan to a file, for `apply FILE`.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Exit with 2 when there is something to do.
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// Do what a plan says; makes one when none is given.
    Apply {
        #[command(flatten)]
        common: Common,
        /// A plan from `plan --out`; refused when the deployment has changed since.
        #[arg(value_name = "PLAN")]
        plan: Option<PathBuf>,
    },
    /// Say how everything that was deployed is doing.
    Status(Common),
    /// Delete everything that was deployed, the last phase first.
    Destroy(Common),
    /// Take an object that exists into the deployment.
    Import {
        #[command(flatten)]
        common: Common,
        /// `configmap`, `prompt_pack`, `tool_registry`, `agent_policy` or `agent_runtime`.
        #[arg(value_name = "TYPE")]
        type_: String,
        /// Its name in the cluster.
        name: String,
    },
    /// Bring the state up to date, and say what others have changed.
    Refresh(Common),
    /// Take the lock away from someone who is gone.
    Unlock {
        #[command(flatten)]
        common: Common,
        /// The lock's id, which whoever does not get the lock is told.
        #[arg(long, value_name = "ID")]
        id: String,
    },
}

/// Which pack, where to, and how it is shown.
#[derive(Args)]
pub struct Common {
    /// The pack (pack.json). A saved plan brings its own.
    #[arg(long, value_name = "FILE")]
    pack: Option<PathBuf>,
    /// The configuration: an arena.yaml, or the deployment's fields alone as YAML or JSON.
    #[arg(long, value_name = "FILE", default_value = "arena.yaml")]
    config: PathBuf,
    /// One of the configuration's environments; each has a state of its own.
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// Where to deploy to.
    #[arg(long, value_enum, default_value_t = Destination::Kubernetes)]
    target: Destination,
    /// Keep the state in this file; by default it is in the cluster, in a Secret beside what it describes.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// How long a runtime may take until it is ready, and a deleted object until it is gone.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: std::time::Duration,
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// The kubeconfig; by default KUBECONFIG, then the plane of this machine, then ~/.kube/config. Not used when the
    /// configuration names an endpoint.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where `orrery up` keeps everything.
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "DIR", hide = true)]
    data_dir: Option<PathBuf>,
}

/// Where to deploy to.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Destination {
    /// A namespace of a cluster, as Omnia's objects.
    Kubernetes,
    /// AWS Bedrock AgentCore (not part of this version).
    Agentcore,
}

/// How a result is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    let length = Duration(text.into()).parse().map_err(|error| error.to_string())?;
    length.try_into().map_err(|_| format!("{text} is too long"))
}

/// Does it; the answer is how to exit.
pub async fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Plan { common, out, detailed_exitcode } => verbs::plan(common, out, detailed_exitcode).await,
        Verb::Apply { common, plan } => verbs::apply(common, plan).await,
        Verb::Status(common) => verbs::status(common).await,
        Verb::Destroy(common) => verbs::destroy(common).await,
        Verb::Import { common, type_, name } => verbs::import(common, &type_, &name).await,
        Verb::Refresh(common) => verbs::refresh(common).await,
        Verb::Unlock { common, id } => verbs::unlock(common, &id).await,
    }
}
