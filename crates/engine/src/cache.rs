//! What the process knows of the cluster: one cache per kind (and selection) for all controllers.
//!
//! A cache never goes back in time and always shows the process's own writes: the answer to a write is put in at once,
//! and the watch event that repeats it later changes nothing. That needs the version of every list, which is why the
//! listing and watching is done here (see [`reflector`]) and not by `kube::runtime`.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::{ApiResource, Selector, SelectorExt, WatchEvent};
use kube::{Client, Resource, ResourceExt};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::SharedClock;
use crate::error::Error;
use crate::key::Key;

mod reflector;
mod store;

pub use store::Change;
use store::{Head, Store};

/// A kind that can be cached.
pub trait Cached: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + Send + Sync + 'static> Cached for K {}

type Subscriber<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;
/// Takes away from an object what nobody reads.
pub(crate) type Trim<K> = fn(&mut K);

/// The objects of one kind.
pub struct Cache<K> {
    resource: ApiResource,
    selector: Selector,
    /// Where to list and watch: one entry "" for everything, or one a namespace.
    scopes: Vec<String>,
    /// Takes away what nobody reads.
    trim: Trim<K>,
    store: RwLock<Store<K>>,
    subscribers: RwLock<Vec<Subscriber<K>>>,
    synced: watch::Sender<usize>,
}

/// A cache whose kind is known only to those who use it.
pub(crate) trait AnyCache: Send + Sync {
    fn resource(&self) -> &ApiResource;
    /// The cached object as JSON.
    fn value(&self, key: &Key) -> Option<Value>;
    /// Takes in the answer to a write or a live read.
    fn offer(&self, value: &Value);
    /// Takes in that an object is gone for good.
    fn forget(&self, key: &Key, uid: &str);
    /// Takes in one event of a watch on this cache's scope and selection.
    fn deliver(&self, scope: &str, event: WatchEvent<Value>);
    /// Takes in one event of the whole kind, as far as it concerns this cache.
    fn hear(&self, event: &WatchEvent<Value>);
    /// Lists everything once.
    fn refresh(&self, client: Client) -> BoxFuture<'_, Result<(), Error>>;
    /// Lists and watches until told to stop.
    fn run(self: Arc<Self>, client: Client, clock: SharedClock, stop: CancellationToken) -> BoxFuture<'static, ()>;
    /// Completes once everything was listed.
    fn synced(&self) -> BoxFuture<'static, ()>;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Cached> Cache<K> {
    fn new(selector: Selector, trim: Trim<K>, namespaces: &[String]) -> Self {
        let resource = ApiResource::erase::<K>(&());
        let scopes =
            if namespaces.is_empty() || !is_namespaced::<K>() { vec![String::new()] } else { namespaces.to_vec() };
        Self {
            resource,
            selector,
            scopes,
            trim,
            store: RwLock::new(Store::default()),
            subscribers: RwLock::new(Vec::new()),
            synced: watch::Sender::new(0),
        }
    }

    pub(crate) fn subscribe(&self, subscriber: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.subscribers.write().push(Box::new(subscriber));
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.store.read().get(key)
    }

    pub(crate) fn is_heard(&self, key: &Key) -> bool {
        self.store.read().is_heard(key)
    }

    pub(crate) fn list(&self, namespace: &str) -> Vec<Arc<K>> {
        self.store.read().list(namespace)
    }

    pub(crate) fn owned(&self, owner_uid: &str) -> Vec<Arc<K>> {
        self.store.read().owned(owner_uid)
    }

    fn scope_of(&self, namespace: &str) -> Option<&str> {
        self.scopes.iter().map(String::as_str).find(|scope| scope.is_empty() || *scope == namespace)
    }

    fn parse(&self, value: &Value) -> Option<K> {
        match K::deserialize(value) {
            Ok(mut object) => {
                // Nobody reads it, and it is often half of the object.
                object.meta_mut().managed_fields = None;
                (self.trim)(&mut object);
                Some(object)
            }
            Err(error) => {
                // One malformed object must not stop the watch for all the others.
                tracing::error!(kind = self.resource.kind, %error, "ignoring an object that does not fit its type");
                None
            }
        }
    }

    /// A watch event said that the object is now like this. Most events repeat what this process wrote itself: those are
    /// not even taken apart.
    fn applied(&self, scope: &str, value: &Value) -> Option<Change<K>> {
        let head = Head::of(value);
        if self.store.write().heard(scope, &head) {
            return None;
        }
        let object = self.parse(value)?;
        self.store.write().put(object)
    }

    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.selects_all() || self.selector.matches(labels)
    }

    fn announce(&self, changes: impl IntoIterator<Item = Change<K>>) {
        let subscribers = self.subscribers.read();
        for change in changes {
            for subscriber in subscribers.iter() {
                subscriber(&change);
            }
        }
    }
}

impl<K: Cached> AnyCache for Cache<K> {
    fn resource(&self) -> &ApiResource {
        &self.resource
    }

    fn value(&self, key: &Key) -> Option<Value> {
        let object = self.get(key)?;
        Some(serde_json::to_value(&*object).expect("a cached object serializes to JSON"))
    }

    fn offer(&self, value: &Value) {
        if self.store.read().knows(&Head::of(value)) {
            return;
        }
        let Some(object) = self.parse(value) else { return };
        let Some(scope) = self.scope_of(object.meta().namespace.as_deref().unwrap_or_default()) else { return };
        let selects = self.selects(object.labels());
        let change = self.store.write().offer(scope, object, selects);
        self.announce(change);
    }

    fn forget(&self, key: &Key, uid: &str) {
        let change = self.store.write().forget(key, uid);
        self.announce(change);
    }

    fn deliver(&self, scope: &str, event: WatchEvent<Value>) {
        let change = match event {
            WatchEvent::Added(value) | WatchEvent::Modified(value) => self.applied(scope, &value),
            WatchEvent::Deleted(value) => self.store.write().deleted(scope, &Head::of(&value)),
            WatchEvent::Bookmark(bookmark) => {
                self.store.write().seen(scope, &bookmark.metadata.resource_version);
                None
            }
            WatchEvent::Error(_) => None,
        };
        self.announce(change);
    }

    fn hear(&self, event: &WatchEvent<Value>) {
        let (WatchEvent::Added(value) | WatchEvent::Modified(value) | WatchEvent::Deleted(value)) = event else {
            return;
        };
        let head = Head::of(value);
        let Some(scope) = self.scope_of(&head.key.namespace).filter(|_| self.selects(&labels(value))) else { return };
        let change = match event {
            WatchEvent::Deleted(_) => self.store.write().deleted(scope, &head),
            _ => self.applied(scope, value),
        };
        self.announce(change);
    }

    fn refresh(&self, client: Client) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            for scope in &self.scopes {
                reflector::list(self, &client, scope).await?;
            }
            Ok(())
        })
    }

    fn run(self: Arc<Self>, client: Client, clock: SharedClock, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let scopes = self.scopes.iter().map(|scope| reflector::run(&self, &client, &clock, scope, &stop));
            futures::future::join_all(scopes).await;
        })
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        let (mut synced, wanted) = (self.synced.subscribe(), self.scopes.len());
        Box::pin(async move {
            // An error means that the cache is gone, and with it everyone who could be waiting.
            let _ = synced.wait_for(|count| *count >= wanted).await;
        })
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

fn labels(value: &Value) -> BTreeMap<String, String> {
    let labels = value["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn is_namespaced<K: Cached>() -> bool {
    TypeId::of::<K::Scope>() != TypeId::of::<kube::core::ClusterResourceScope>()
}

/// The kind, the selection, and their cache.
type Entry = (TypeId, String, Arc<dyn AnyCache>);

/// All caches of a process.
pub(crate) struct Caches {
    namespaces: Vec<String>,
    list: Mutex<Vec<Entry>>,
}

impl Caches {
    pub(crate) fn new(namespaces: Vec<String>) -> Self {
        Self { namespaces, list: Mutex::new(Vec::new()) }
    }

    /// The cache of a kind and selection; made when asked for the first time, and trimmed as the first one wants it.
    pub(crate) fn of<K: Cached>(&self, selector: &Selector, trim: Trim<K>) -> Arc<Cache<K>> {
        let (kind, text) = (TypeId::of::<K>(), selector.to_string());
        let mut list = self.list.lock();
        if let Some((_, _, cache)) = list.iter().find(|(present, selects, _)| *present == kind && *selects == text) {
            return downcast(Arc::clone(cache));
        }
        let cache = Arc::new(Cache::<K>::new(selector.clone(), trim, &self.namespaces));
        list.push((kind, text, Arc::clone(&cache) as Arc<dyn AnyCache>));
        cache
    }

    pub(crate) fn all(&self) -> Vec<Arc<dyn AnyCache>> {
        self.list.lock().iter().map(|(_, _, cache)| Arc::clone(cache)).collect()
    }

    fn of_resource(&self, resource: &ApiResource) -> Vec<Arc<dyn AnyCache>> {
        let same = |cache: &Arc<dyn AnyCache>| {
            cache.resource().plural == resource.plural && cache.resource().group == resource.group
        };
        self.all().into_iter().filter(same).collect()
    }

    /// The object as some cache knows it.
    pub(crate) fn value(&self, resource: &ApiResource, key: &Key) -> Option<Value> {
        self.of_resource(resource).iter().find_map(|cache| cache.value(key))
    }

    pub(crate) fn offer(&self, resource: &ApiResource, value: &Value) {
        for cache in self.of_resource(resource) {
            cache.offer(value);
        }
    }

    pub(crate) fn forget(&self, resource: &ApiResource, key: &Key, uid: &str) {
        for cache in self.of_resource(resource) {
            cache.forget(key, uid);
        }
    }

    /// Lists one kind again.
    pub(crate) async fn refresh(&self, resource: &ApiResource, client: &Client) -> Result<(), Error> {
        for cache in self.of_resource(resource) {
            cache.refresh(client.clone()).await?;
        }
        Ok(())
    }

    pub(crate) fn deliver(&self, resource: &ApiResource, event: &WatchEvent<Value>) {
        for cache in self.of_resource(resource) {
            cache.hear(event);
        }
    }
}

pub(crate) fn downcast<K: Cached>(cache: Arc<dyn AnyCache>) -> Arc<Cache<K>> {
    cache.as_any().downcast::<Cache<K>>().expect("caches are stored under the type of their kind")
}

/// The moment of creation, for those who order by it.
pub fn created<K: Resource>(object: &K) -> Option<Timestamp> {
    object.meta().creation_timestamp.as_ref().map(|time| time.0)
}
