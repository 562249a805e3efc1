//! Which kinds the API server serves: needed by those who must deal with objects of every kind.

use std::sync::Arc;

use engine::{Error, Key};
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};
use parking_lot::RwLock;

/// The metadata of an object of any kind.
pub type Metadata = PartialObjectMeta<DynamicObject>;

/// A kind whose objects can be listed, watched and deleted.
#[derive(Debug, PartialEq)]
pub struct Kind {
    /// Its names.
    pub resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// The kinds that are served now.
pub struct Inventory {
    client: Client,
    kinds: RwLock<Vec<Arc<Kind>>>,
}

impl Inventory {
    /// Empty until it is refreshed.
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self { client, kinds: RwLock::new(Vec::new()) })
    }

    /// Asks the API server. Known kinds keep their identity.
    pub async fn refresh(&self) -> Result<(), Error> {
        let discovery = Discovery::new(self.client.clone()).run().await?;
        let mut fresh = Vec::new();
        for (resource, capabilities) in discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources) {
            let needed = [verbs::LIST, verbs::WATCH, verbs::DELETE];
            // Events belong to nobody and end by themselves.
            if resource.kind != "Event" && needed.iter().all(|verb| capabilities.supports_operation(verb)) {
                fresh.push(Kind { resource, namespaced: capabilities.scope == Scope::Namespaced });
            }
        }
        let mut kinds = self.kinds.write();
        let known = std::mem::take(&mut *kinds);
        *kinds = fresh
            .into_iter()
            .map(|kind| known.iter().find(|known| ***known == kind).cloned().unwrap_or_else(|| Arc::new(kind)))
            .collect();
        Ok(())
    }

    /// All kinds.
    pub fn all(&self) -> Vec<Arc<Kind>> {
        self.kinds.read().clone()
    }

    /// The kind an owner reference names, in whatever version of its group.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.kinds.read().iter().find(|known| known.resource.kind == kind && known.resource.group == group).cloned()
    }

    /// The metadata of the objects of a kind, in all namespaces when `namespace` is empty.
    pub fn metadata_api(&self, kind: &Kind, namespace: &str) -> Api<Metadata> {
        if kind.namespaced && !namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        }
    }

    /// One object's metadata as it is now.
    pub async fn read(&self, kind: &Kind, key: &Key) -> Result<Option<Metadata>, Error> {
        Ok(self.metadata_api(kind, &key.namespace).get_opt(&key.name).await?)
    }

    /// The metadata of all objects of a kind as they are now.
    pub async fn list(&self, kind: &Kind, namespace: &str) -> Result<Vec<Metadata>, Error> {
        let mut params = ListParams::default().limit(500);
        let mut found = Vec::new();
        loop {
            let page = self.metadata_api(kind, namespace).list(&params).await?;
            let next = page.metadata.continue_.clone().filter(|next| !next.is_empty());
            found.extend(page.items);
            match next {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(found),
            }
        }
    }
}

/// Whether an object names `uid` as an owner.
pub fn is_owned_by(object: &Metadata, uid: &str) -> bool {
    object.owner_references().iter().any(|owner| owner.uid == uid)
}
