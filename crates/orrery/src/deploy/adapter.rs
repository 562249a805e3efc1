//! The adapter: this program under the name `promptarena-deploy-omnia`. Only answers go to standard output; standard error
//! is thrown away by the caller, so words go to the file that `ORRERY_DEPLOY_LOG` names.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use deploy::adapter::{Adapter, Connect};
use deploy::kubernetes::{self, Config};
use deploy::{Category, Failure, Patience};
use tracing_subscriber::EnvFilter;

/// Whether the program was started as the adapter.
pub fn is_meant(program: &OsStr) -> bool {
    Path::new(program).file_stem().is_some_and(|name| name == "promptarena-deploy-omnia")
}

/// Answers requests until there are no more.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            crate::style::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    log()?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let adapter = Adapter { connect: Cluster, patience: patience()? };
    // One request at a time: one thread is enough, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let requests = tokio::io::BufReader::with_capacity(64 * 1024, tokio::io::stdin());
    let served = runtime.block_on(adapter.serve(requests, tokio::io::stdout()));
    // Reading standard input is a thread that may wait for ever.
    runtime.shutdown_background();
    served.context("cannot go on")
}

fn patience() -> anyhow::Result<Patience> {
    let mut patience = Patience::default();
    if let Some(text) = std::env::var_os("ORRERY_DEPLOY_TIMEOUT") {
        let seconds = text.to_str().and_then(|text| text.parse().ok());
        patience.settle =
            seconds.map(Duration::from_secs).context("ORRERY_DEPLOY_TIMEOUT must be a number of seconds")?;
    }
    Ok(patience)
}

fn log() -> anyhow::Result<()> {
    let Some(file) = std::env::var_os("ORRERY_DEPLOY_LOG") else { return Ok(()) };
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&file);
    let opened = opened.with_context(|| format!("cannot write the log {}", Path::new(&file).display()))?;
    let filter = std::env::var("ORRERY_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter).map_err(io::Error::other)?)
        .with_writer(opened)
        .with_ansi(false)
        .init();
    Ok(())
}

/// What the configuration names, or what `kubectl` would use, or else the plane of this machine.
struct Cluster;

#[async_trait::async_trait]
impl Connect for Cluster {
    async fn connect(&self, config: &Config) -> Result<kube::Client, Failure> {
        if let Some(endpoint) = &config.endpoint {
            return kubernetes::client(endpoint);
        }
        let data_dir = std::env::var_os("ORRERY_DATA_DIR").map(PathBuf::from);
        let cluster = crate::cluster::Options::of(None, data_dir).connect().await;
        Ok(cluster.map_err(|error| Failure::new(Category::Configuration, format!("{error:#}")))?.client)
    }
}
