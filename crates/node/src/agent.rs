//! The node: watches the Pods assigned to it and gives each a worker.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodDNSConfig, Secret};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cgroup::Groups;
use crate::driver::{Driver, Network as Place};
use crate::environment::Kind;
use crate::events::Events;
use crate::images::Images;
use crate::network::{DOMAIN, Network};
use crate::registration::{self, Capacity};
use crate::status::Facts;
use crate::worker::{Input, Worker};

/// What a node is started with.
pub struct Config {
    /// The API.
    pub client: Client,
    /// The Node object's name.
    pub name: String,
    /// Where Pods, claims and images are kept.
    pub data: PathBuf,
    /// What runs containers.
    pub driver: Arc<dyn Driver>,
    /// Which images there are.
    pub images: Images,
    /// Most Pods at a time.
    pub max_pods: u32,
    /// Programs of this machine that Pods of the host image have, by where.
    pub programs: BTreeMap<String, PathBuf>,
    /// The network that Pods are on; without one they have loopback only.
    pub network: Option<Arc<Network>>,
    /// Where Pods reach the API when they are on no network of their own.
    pub api: Option<std::net::SocketAddr>,
}

/// What every worker shares.
pub struct Node {
    pub(crate) client: Client,
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) pods: PathBuf,
    pub(crate) claims: PathBuf,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) images: Images,
    pub(crate) capacity: Capacity,
    pub(crate) programs: BTreeMap<String, PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) events: Events,
    network: Option<Arc<Network>>,
    api: Option<std::net::SocketAddr>,
    pub(crate) groups: Arc<Groups>,
    workers: Mutex<HashMap<String, Known>>,
    tracker: TaskTracker,
}

struct Known {
    namespace: String,
    worker: mpsc::Sender<Input>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its directory cannot be used.
    #[error("the node's directory {path} cannot be made")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The API does not take the Node object.
    #[error("the Node object could not be written")]
    Register(#[source] kube::Error),
}

/// A running node. Dropping it stops the node; the Pods go on.
pub struct Handle {
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Handle {
    /// Stops the node and waits until it has let go. The Pods go on under their shims.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts the node: registers it, takes over Pods that are still there, and watches for more.
pub async fn start(config: Config) -> Result<Handle, StartError> {
    let pods = config.data.join("pods");
    let claims = config.data.join("claims");
    for path in [&pods, &claims] {
        make_private(path).map_err(|source| StartError::Directory { path: path.clone(), source })?;
    }
    let capacity = Capacity::of_this_machine(config.max_pods);
    let (events, writing_events) = Events::new(config.client.clone(), config.name.clone());
    let tracker = TaskTracker::new();
    let node = Arc::new(Node {
        client: config.client,
        name: config.name,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        hidden: hidden_paths(config.data.parent().unwrap_or(&config.data)),
        events,
        pods,
        claims,
        driver: config.driver,
        images: config.images,
        capacity,
        programs: config.programs,
        network: config.network,
        api: config.api,
        groups: Arc::new(Groups::find(&config.data)),
        workers: Mutex::new(HashMap::new()),
        tracker: tracker.clone(),
    });
    registration::register(&node).await.map_err(StartError::Register)?;
    let stop = CancellationToken::new();
    spawn(&tracker, &stop, registration::heartbeat(node.clone()));
    spawn(&tracker, &stop, watch_sources::<ConfigMap>(node.clone(), Kind::ConfigMap));
    spawn(&tracker, &stop, watch_sources::<Secret>(node.clone(), Kind::Secret));
    spawn(&tracker, &stop, writing_events);
    spawn(&tracker, &stop, crate::claims::watch(node.client.clone(), node.claims.clone()));
    if let Some(network) = &node.network {
        spawn(&tracker, &stop, network.clone().serve(node.client.clone()));
    }
    let watching = watch_pods(node, stop.clone());
    tracker.spawn(watching);
    Ok(Handle { stop, tracker })
}

fn spawn(tracker: &TaskTracker, stop: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
    let stop = stop.clone();
    tracker.spawn(async move {
        stop.run_until_cancelled(task).await;
    });
}

async fn watch_pods(node: Arc<Node>, stop: CancellationToken) {
    let api: Api<Pod> = Api::all(node.client.clone());
    let selection = watcher::Config::default().fields(&format!("spec.nodeName={}", node.name));
    let mut events = watcher(api, selection).boxed();
    let mut seen = BTreeSet::new();
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Err(error)) => {
                tracing::warn!(%error, "the watch on Pods was interrupted");
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
            Some(Ok(watcher::Event::Init)) => seen.clear(),
            Some(Ok(watcher::Event::InitApply(pod))) => {
                seen.insert(pod.uid().unwrap_or_default());
                node.tell(pod, &stop).await;
            }
            Some(Ok(watcher::Event::InitDone)) => {
                node.end_unknown(&seen).await;
            }
            Some(Ok(watcher::Event::Apply(pod))) => node.tell(pod, &stop).await,
            Some(Ok(watcher::Event::Delete(pod))) => node.end(&pod.uid().unwrap_or_default()).await,
        }
    }
}

/// Tells workers of changed ConfigMaps or Secrets, so that mounted files follow.
async fn watch_sources<K>(node: Arc<Node>, kind: Kind)
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    K::DynamicType: Default + Clone + Send + Sync,
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    let api: Api<K> = Api::all(node.client.clone());
    let mut events = watcher(api, watcher::Config::default()).boxed();
    loop {
        match events.try_next().await {
            Ok(Some(
                watcher::Event::Apply(object) | watcher::Event::InitApply(object) | watcher::Event::Delete(object),
            )) => {
                let namespace = object.namespace().unwrap_or_default();
                node.tell_changed(&namespace, kind, &object.name_any()).await;
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the watch on {kind}s was interrupted");
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
        }
    }
}

impl Node {
    async fn tell(self: &Arc<Self>, pod: Pod, stop: &CancellationToken) {
        let uid = pod.uid().unwrap_or_default();
        let known = self.workers.lock().get(&uid).map(|known| known.worker.clone());
        if let Some(worker) = known {
            let _ = worker.send(Input::Pod(Box::new(pod))).await;
            return;
        }
        let namespace = pod.namespace().unwrap_or_default();
        let (worker, sender) = Worker::new(self.clone(), pod);
        self.workers.lock().insert(uid, Known { namespace, worker: sender });
        spawn(&self.tracker, stop, worker.run());
    }

    async fn end(&self, uid: &str) {
        let known = self.workers.lock().get(uid).map(|known| known.worker.clone());
        if let Some(worker) = known {
            let _ = worker.send(Input::Gone).await;
        }
    }

    /// Ends Pods that the API does not know: deleted while nobody watched.
    async fn end_unknown(&self, known: &BTreeSet<String>) {
        let gone: Vec<String> = self.workers.lock().keys().filter(|uid| !known.contains(*uid)).cloned().collect();
        for uid in gone {
            self.end(&uid).await;
        }
        let on_disk = std::fs::read_dir(&self.pods).into_iter().flatten().flatten();
        for entry in on_disk {
            let uid = entry.file_name().to_string_lossy().into_owned();
            if known.contains(&uid) || self.workers.lock().contains_key(&uid) {
                continue;
            }
            if let Some(sandbox) = self.driver.find(&uid).await {
                let _ = sandbox.close(Vec::new()).await;
            }
            let _ = crate::volumes::files::remove(&entry.path());
        }
    }

    async fn tell_changed(&self, namespace: &str, kind: Kind, name: &str) {
        let workers: Vec<mpsc::Sender<Input>> = {
            let known = self.workers.lock();
            known.values().filter(|known| known.namespace == namespace).map(|known| known.worker.clone()).collect()
        };
        for worker in workers {
            let _ = worker.send(Input::Changed(kind, name.to_owned())).await;
        }
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.workers.lock().remove(uid);
        self.events.forget(uid);
    }

    /// The Pod's place in the Pod network.
    pub(crate) fn network(&self, uid: &str) -> Option<Place> {
        self.network.as_ref().and_then(|network| network.place(uid))
    }

    /// Its place is free again.
    pub(crate) fn release(&self, uid: &str) {
        if let Some(network) = &self.network {
            network.release(uid);
        }
        self.groups.remove(uid);
    }

    /// Variables that tell a Pod where the API is.
    pub(crate) fn service_variables(&self) -> Vec<(String, String)> {
        let service = self.network.as_ref().map(|network| (network.api_service().to_string(), 443));
        let Some((host, port)) = service.or(self.api.map(|api| (api.ip().to_string(), api.port()))) else {
            return Vec::new();
        };
        vec![
            ("KUBERNETES_SERVICE_HOST".to_owned(), host.clone()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string()),
            ("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), port.to_string()),
            ("KUBERNETES_PORT".to_owned(), format!("tcp://{host}:{port}")),
        ]
    }

    /// `resolv.conf` of a Pod.
    pub(crate) fn resolver_file(&self, namespace: &str, config: Option<&PodDNSConfig>) -> String {
        let mut searches = [format!("{namespace}.svc.{DOMAIN}"), format!("svc.{DOMAIN}"), DOMAIN.to_owned()].to_vec();
        let mut lines = Vec::new();
        lines.extend(self.network.as_ref().map(|network| format!("nameserver {}", network.name_server())));
        let mut options = vec!["ndots:5".to_owned()];
        if let Some(config) = config {
            lines.extend(config.nameservers.iter().flatten().map(|server| format!("nameserver {server}")));
            searches.extend(config.searches.iter().flatten().cloned());
            options.extend(config.options.iter().flatten().map(|option| {
                let name = option.name.clone().unwrap_or_default();
                option.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}"))
            }));
        }
        lines.push(format!("search {}", searches.join(" ")));
        lines.push(format!("options {}\n", options.join(" ")));
        lines.join("\n")
    }

    /// The container's control groups, as far as this machine has them.
    pub(crate) fn limit(&self, uid: &str, container: &Container, facts: &mut Facts) -> Vec<OwnedFd> {
        let (joins, unenforced) = self.groups.make(uid, container);
        if !unenforced.is_empty() {
            let names = unenforced.join(", ");
            facts.unenforced = Some(format!(
                "container {}: this machine gives us no control group to enforce limits of {names}",
                container.name
            ));
        }
        joins
    }

    pub(crate) fn was_out_of_memory(&self, uid: &str, container: &str) -> bool {
        self.groups.was_out_of_memory(uid, container)
    }
}

/// Ends every Pod's processes and the Pod network of a plane that does not run. Returns how many Pods there were.
pub async fn end_all(data: &Path, driver: &dyn Driver) -> usize {
    let mut ended = 0;
    let groups = Groups::find(data);
    for entry in std::fs::read_dir(data.join("pods")).into_iter().flatten().flatten() {
        let uid = entry.file_name().to_string_lossy().into_owned();
        if let Some(sandbox) = driver.find(&uid).await {
            if let Err(error) = sandbox.close(Vec::new()).await {
                tracing::warn!(pod = uid, %error, "the Pod's sandbox did not close");
            }
            ended += 1;
        }
        groups.remove(&uid);
    }
    crate::network::end(data).await;
    ended
}

fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// What the host image must not show, wherever it lies: our data, and the homes of people.
fn hidden_paths(data: &Path) -> Vec<PathBuf> {
    let mut hidden: BTreeSet<PathBuf> = BTreeSet::new();
    hidden.extend(std::fs::canonicalize(data).ok());
    hidden.extend(std::env::var_os("HOME").map(PathBuf::from));
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, uid, _, _, home, shell] = fields[..] else { continue };
        let is_person = uid == "0" || uid.parse::<u32>().is_ok_and(|uid| (1000..65_534).contains(&uid));
        if is_person && !shell.ends_with("nologin") && home.len() > 1 {
            hidden.insert(PathBuf::from(home));
        }
    }
    for private in
        ["/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d", "/etc/wireguard", "/etc/kubernetes", "/etc/rancher"]
    {
        hidden.insert(PathBuf::from(private));
    }
    // A home that holds programs everybody runs cannot be hidden.
    hidden.retain(|path| !["/", "/usr", "/usr/bin", "/bin", "/etc", "/opt"].iter().any(|root| path == Path::new(root)));
    hidden.into_iter().collect()
}
