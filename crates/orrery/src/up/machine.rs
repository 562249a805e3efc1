//! This machine as the plane's node.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use node::driver::Driver;
use node::images::{Images, Rule};
use node::network::Network;
use node::process::{Process, Shims};
use tokio_util::sync::CancellationToken;

/// How Pods run on this machine.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "machine")]
pub struct Options {
    /// Run images that fit PATTERN from this machine's own files, as PATTERN=host; `*` stands for anything.
    #[arg(long = "image-map", value_name = "PATTERN=host")]
    image_map: Vec<Rule>,
    /// How Pods run: in namespaces of their own, or without any isolation.
    #[arg(long = "node", value_enum, default_value_t = Kind::Process, value_name = "KIND")]
    kind: Kind,
    /// Most Pods at a time.
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    max_pods: u32,
    /// OpenCode's program, which Pods of the platform's images see; found by itself where it is usually installed.
    #[arg(long, env = "ORRERY_OPENCODE", value_name = "FILE")]
    opencode: Option<PathBuf>,
    /// Name of the Node object; by default this machine's host name.
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
}

/// What runs Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Processes in namespaces of their own.
    Process,
    /// Processes like any other of this user: nothing is isolated.
    Host,
}

/// What runs Pods, before there is an API to take them from.
pub struct Machine {
    options: Options,
    data: PathBuf,
    driver: Arc<dyn Driver>,
    shims: Shims,
    services: (Ipv4Addr, u8),
}

impl Machine {
    /// Keeps its files below the plane's data directory.
    pub fn new(options: Options, folder: &Path, services: (Ipv4Addr, u8)) -> Self {
        let data = folder.join("node");
        let (pods, shims) = (data.join("pods"), Shims::own());
        let driver = Arc::new(match options.kind {
            Kind::Process => Process::new(pods, shims.clone()),
            Kind::Host => Process::without_isolation(pods, shims.clone()),
        });
        Self { options, data, driver, shims, services }
    }

    /// Whether Pods have file systems of their own, in which something can be shown to them anywhere.
    pub fn is_isolated(&self) -> bool {
        self.driver.isolation().in_force
    }

    /// Into its Pods, for the API.
    pub fn access(&self) -> Arc<node::Access> {
        Arc::new(node::Access::new(&self.data, self.driver.clone()))
    }

    /// What image names stand for here.
    pub fn images(&self) -> Images {
        Images::new(self.options.image_map.clone(), &self.data)
    }

    /// Programs that the platform's images have: ours, and the agent's where this machine has it.
    fn programs(&self) -> anyhow::Result<BTreeMap<String, PathBuf>> {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut programs = BTreeMap::from([("/kubeopencode".to_owned(), own.clone()), ("/orrery".to_owned(), own)]);
        programs.extend(self.opencode()?.map(|path| ("/opt/orrery/bin/opencode".to_owned(), path)));
        Ok(programs)
    }

    /// The agent's program outside of where every Pod of this machine's files sees it.
    fn opencode(&self) -> anyhow::Result<Option<PathBuf>> {
        let asked = self.options.opencode.clone();
        if let Some(path) = &asked {
            anyhow::ensure!(path.is_file(), "--opencode {}: there is no such file", path.display());
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let usual = home.map(|home| home.join(".opencode/bin/opencode")).filter(|path| path.is_file());
        Ok(asked.or(usual))
    }

    /// Says at once that the agent is not there, instead of in a Pod's log.
    pub fn require_opencode(&self) -> anyhow::Result<()> {
        let everywhere = ["/usr/local/bin/opencode", "/usr/bin/opencode"].iter().any(|path| Path::new(path).is_file());
        anyhow::ensure!(
            everywhere || self.opencode()?.is_some(),
            "OpenCode is not on this machine: name its program with --opencode (`scripts/opencode` gets it from npm)"
        );
        Ok(())
    }

    /// Runs Pods until `stop`. They go on after that, under their shims.
    pub async fn run(self, client: kube::Client, api: SocketAddr, stop: CancellationToken) -> anyhow::Result<()> {
        let network = if self.is_isolated() {
            let identity = self.driver.identity(&[]).context("this machine cannot isolate Pods")?;
            let opened = Network::open(&self.data, &self.shims, identity, self.services, api).await;
            Some(opened.context("the Pod network could not be made")?)
        } else {
            None
        };
        let config = node::Config {
            client,
            name: self.options.node_name.clone().unwrap_or_else(host_name),
            data: self.data.clone(),
            driver: self.driver.clone(),
            images: self.images(),
            max_pods: self.options.max_pods,
            programs: self.programs()?,
            network: network.clone(),
            api: Some(api),
        };
        let node = node::start(config).await?;
        stop.cancelled().await;
        node.stop().await;
        // Nobody is left on it: the next start makes another.
        if let Some(network) = network
            && !self.has_pods().await
            && let Err(error) = network.close().await
        {
            tracing::warn!(%error, "the Pod network did not close");
        }
        Ok(())
    }

    async fn has_pods(&self) -> bool {
        for entry in std::fs::read_dir(self.data.join("pods")).into_iter().flatten().flatten() {
            if self.driver.find(&entry.file_name().to_string_lossy()).await.is_some() {
                return true;
            }
        }
        false
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_ascii_lowercase();
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    if plain { name } else { "this-machine".to_owned() }
}
