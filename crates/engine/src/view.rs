//! What a controller may look at while it observes.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::{ApiResource, Request};
use serde::Deserialize;
use serde_json::Value;

use crate::cache::{AnyCache, Cache, Cached, Caches, downcast};
use crate::clock::SharedClock;
use crate::error::Error;
use crate::key::{Key, collection_path};

/// The caches of the kinds a controller watches, and live reads for everything else.
///
/// A cache may be behind the cluster (never behind this process's own writes), so an object that is missing there may
/// exist. Whoever acts on an absence asks with [`View::get`] or [`View::live`].
#[derive(Clone)]
pub struct View {
    pub(crate) kinds: Arc<HashMap<TypeId, Arc<dyn AnyCache>>>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) client: Client,
    pub(crate) clock: SharedClock,
}

impl View {
    fn cache<K: Cached>(&self) -> Arc<Cache<K>> {
        let cache = self.kinds.get(&TypeId::of::<K>());
        downcast(Arc::clone(cache.expect("a controller reads caches only of kinds that its `watches` names")))
    }

    /// The object as the cache knows it.
    pub fn cached<K: Cached>(&self, key: &Key) -> Option<Arc<K>> {
        self.cache::<K>().get(key)
    }

    /// Whether the watch has told of an object. One's own creations are cached before that, and then older objects of
    /// others may still be unknown.
    pub fn is_heard<K: Cached>(&self, key: &Key) -> bool {
        self.cache::<K>().is_heard(key)
    }

    /// The cached objects of a namespace, or of all when it is empty, ordered by key.
    pub fn list<K: Cached>(&self, namespace: &str) -> Vec<Arc<K>> {
        self.cache::<K>().list(namespace)
    }

    /// The cached objects that name `owner_uid` as an owner.
    pub fn owned<K: Cached>(&self, owner_uid: &str) -> Vec<Arc<K>> {
        self.cache::<K>().owned(owner_uid)
    }

    /// From the cache, or live when it is not there: `None` means that it does not exist.
    pub async fn get<K: Cached>(&self, key: &Key) -> Result<Option<Arc<K>>, Error> {
        match self.kinds.get(&TypeId::of::<K>()).and_then(|_| self.cached::<K>(key)) {
            Some(object) => Ok(Some(object)),
            None => self.live(key).await,
        }
    }

    /// Straight from the API server.
    pub async fn live<K: Cached>(&self, key: &Key) -> Result<Option<Arc<K>>, Error> {
        let resource = ApiResource::erase::<K>(&());
        let value = read(&self.client, &resource, key).await?;
        let Some(value) = value else { return Ok(None) };
        self.caches.offer(&resource, &value);
        Ok(Some(Arc::new(serde_json::from_value(value).map_err(kube::Error::SerdeError)?)))
    }

    /// All objects of a namespace (of all when empty) with these labels, straight from the API server.
    pub async fn live_list<K: Cached>(&self, namespace: &str, labels: &str) -> Result<Vec<K>, Error> {
        #[derive(Deserialize)]
        struct List<K> {
            items: Vec<K>,
        }
        let request = Request::new(collection_path(&ApiResource::erase::<K>(&()), namespace));
        let request = request.list(&ListParams::default().labels(labels)).map_err(Error::request)?;
        Ok(self.client.request::<List<K>>(request).await?.items)
    }

    /// For the few controllers that need a verb of their own, such as reading a log.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The present moment, for those who must bound what they ask elsewhere. Decisions get theirs as an argument.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// One object as it is now; `None` when it does not exist.
pub(crate) async fn read(client: &Client, resource: &ApiResource, key: &Key) -> Result<Option<Value>, Error> {
    let request = Request::new(collection_path(resource, &key.namespace));
    let request = request.get(&key.name, &GetParams::default()).map_err(Error::request)?;
    match client.request::<Value>(request).await.map_err(Error::from) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
