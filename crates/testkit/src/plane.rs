//! An embedded plane of one's own.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use apiserver::access::Access;
use apiserver::pods::PodAccess;
use apiserver::tokens::Tokens;
use apiserver::user::User;
use apiserver::{ApiServer, Config};
use parking_lot::Mutex;
use store::Store;
use tempfile::TempDir;

/// A plane on a temporary directory. Dropping it ends its watches and background work.
pub struct Plane {
    server: ApiServer,
    store: Store,
    directory: TempDir,
}

impl Plane {
    /// A plane that is ready: namespaces are there, definitions are served.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A plane whose Pods someone runs.
    pub async fn with_pods(pods: Arc<dyn PodAccess>) -> Self {
        Self::with(|config| config.pods = Some(pods)).await
    }

    /// A plane with settings of one's own.
    pub async fn with(configure: impl FnOnce(&mut Config)) -> Self {
        Self::in_directory(tempfile::tempdir().expect("a temporary directory"), configure).await
    }

    /// A plane that need not survive the machine: its files are in memory where there is such a place, so that
    /// thousands of runs do not wait for a disk.
    pub async fn in_memory() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self::in_directory(directory.expect("a temporary directory"), |_| {}).await
    }

    async fn in_directory(directory: TempDir, configure: impl FnOnce(&mut Config)) -> Self {
        let store = Store::open(directory.path().join("orrery.db"), store::Options::default()).expect("a new store");
        let tokens = Tokens::ephemeral().expect("a fresh signing key");
        let access = Access::new(store.clone(), tokens);
        let mut config = Config::new(store.clone(), access);
        configure(&mut config);
        let server = ApiServer::new(config);
        server.start().await.expect("a new plane starts");
        Self { server, store, directory }
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The store below it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The objects of a kind (`apps/deployments`, `/pods`) in a namespace, straight from the store.
    pub fn objects<K: serde::de::DeserializeOwned>(&self, resource: &str, namespace: &str) -> Vec<K> {
        let page = self.store.list(&store::Scope::namespace(resource, namespace), &store::Paging::default());
        let entries = page.expect("the present can be read").entries;
        let read = |entry: &Arc<store::Entry>| serde_json::from_slice(&entry.value).expect("stored objects are JSON");
        entries.iter().map(read).collect()
    }

    /// Reads the objects of a namespace, for those who look at them again and again.
    pub fn reader(self: &Arc<Self>, namespace: &str) -> Reader {
        Reader { plane: Arc::clone(self), namespace: namespace.to_owned(), read: Mutex::default() }
    }

    /// Where the plane keeps its files.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Serves the API on loopback to processes of a test, as its administrator: no credential is asked for. The answer is
    /// its URL.
    pub async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port of loopback");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let routes = self.server.access().trust(User::master("admin"), self.server.routes());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        url
    }

    /// A client that may do anything.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::master("admin"))
    }

    /// A client with an identity of its own; roles decide what it may do.
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(self.server.service_as(user), "default")
    }
}

/// An object, taken apart.
type Read = Arc<dyn Any + Send + Sync>;

/// The objects of a namespace, straight from the store. No version of an object is taken apart twice.
pub struct Reader {
    plane: Arc<Plane>,
    namespace: String,
    read: Mutex<HashMap<(TypeId, store::Key), (store::Revision, Read)>>,
}

impl Reader {
    /// The objects of a kind (`apps/deployments`, `/pods`).
    pub fn objects<K: serde::de::DeserializeOwned + Send + Sync + 'static>(&self, resource: &str) -> Vec<Arc<K>> {
        let scope = store::Scope::namespace(resource, &self.namespace);
        let page = self.plane.store.list(&scope, &store::Paging::default()).expect("the present can be read");
        page.entries.iter().map(|entry| self.object(entry)).collect()
    }

    fn object<K: serde::de::DeserializeOwned + Send + Sync + 'static>(&self, entry: &store::Entry) -> Arc<K> {
        let mut read = self.read.lock();
        let place = (TypeId::of::<K>(), entry.key.clone());
        let known = read.get(&place).filter(|(revision, _)| *revision == entry.revision);
        if let Some(object) = known.and_then(|(_, object)| Arc::clone(object).downcast::<K>().ok()) {
            return object;
        }
        let object: Arc<K> = Arc::new(serde_json::from_slice(&entry.value).expect("stored objects are JSON"));
        read.insert(place, (entry.revision, Arc::clone(&object) as Read));
        object
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.server.close();
    }
}
