//! How commands reach a plane: what `kubectl` would use, or else the plane of this machine.

use std::path::PathBuf;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::data_dir;

/// Where a command works.
#[derive(clap::Args, Clone)]
#[group(id = "cluster")]
pub struct Options {
    /// Namespace; by default the kubeconfig's.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The kubeconfig; by default KUBECONFIG, then the plane of this machine, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where `orrery up` keeps everything.
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "DIR", hide = true)]
    data_dir: Option<PathBuf>,
}

impl Options {
    /// For commands whose namespace is said elsewhere.
    pub fn of(kubeconfig: Option<PathBuf>, data_dir: Option<PathBuf>) -> Self {
        Self { namespace: None, kubeconfig, data_dir }
    }
}

/// A plane, and the namespace that is meant.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    pub namespace: String,
    /// Where a plane of this machine keeps logs of Pods that are gone.
    pub logs: Option<PathBuf>,
}

impl Options {
    pub async fn connect(&self) -> anyhow::Result<Cluster> {
        let folder = data_dir::resolve(self.data_dir.clone())?;
        let own = folder.join("kubeconfig");
        let file = match &self.kubeconfig {
            Some(file) => Some(file.clone()),
            None if std::env::var_os("KUBECONFIG").is_none() && own.exists() => Some(own),
            None => None,
        };
        let config = match file {
            None => {
                Config::infer().await.context("no plane to talk to: start one with `orrery up`, or set KUBECONFIG")?
            }
            Some(file) => {
                let config = Kubeconfig::read_from(&file).with_context(|| format!("cannot read {}", file.display()))?;
                Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?
            }
        };
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)?;
        let logs = folder.join("logs");
        Ok(Cluster { client, namespace, logs: logs.is_dir().then_some(logs) })
    }
}
