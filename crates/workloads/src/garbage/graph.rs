//! Who owns whom. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use engine::{Key, Target};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use crate::inventory::{Kind, Metadata};

/// A reference to an owner, as the object has it.
pub type Owner = OwnerReference;

/// What is known of one object.
#[derive(Debug, Clone)]
pub struct Item {
    pub kind: Arc<Kind>,
    pub key: Key,
    pub uid: String,
    pub resource_version: String,
    pub owners: Vec<Owner>,
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

impl Item {
    pub fn new(kind: &Arc<Kind>, object: &Metadata) -> Self {
        Self {
            kind: Arc::clone(kind),
            key: Key::of(object),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            owners: object.owner_references().to_vec(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalizers: object.finalizers().to_vec(),
        }
    }

    /// Whether this object's existence holds up the deletion of `owner` in the foreground.
    pub fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
    }

    pub fn target(&self) -> Target {
        Target {
            resource: self.kind.resource.clone(),
            key: self.key.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }
}

/// All objects by uid.
#[derive(Default)]
pub struct Graph {
    items: HashMap<String, Item>,
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    pub fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> Vec<Item> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.items.get(uid).cloned()).collect()
    }

    /// Takes in an object; answers the uids that must be looked at because of it.
    pub fn put(&mut self, item: Item) -> Vec<String> {
        let mut touched = self.unlink(&item.uid);
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(item.uid.clone());
            touched.push(owner.uid.clone());
        }
        // Owners matter only while they wait for their dependents; everyone else is fine.
        touched.retain(|uid| self.items.get(uid).is_some_and(|owner| owner.deleting));
        if item.deleting {
            // Dependents of what is deleted in the foreground must go now.
            touched.extend(self.dependents.get(&item.uid).into_iter().flatten().cloned());
        }
        if item.deleting || !item.owners.is_empty() {
            touched.push(item.uid.clone());
        }
        self.items.insert(item.uid.clone(), item);
        touched
    }

    /// An object is gone; answers the uids that must be looked at because of it.
    pub fn remove(&mut self, uid: &str) -> Vec<String> {
        let mut touched = self.unlink(uid);
        self.items.remove(uid);
        touched.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        touched
    }

    /// All objects of a kind were listed: the others are gone.
    pub fn keep_only(&mut self, kind: &Arc<Kind>, listed: &HashSet<String>) -> Vec<String> {
        let of_kind = self.items.values().filter(|item| Arc::ptr_eq(&item.kind, kind));
        let gone: Vec<String> = of_kind.map(|item| item.uid.clone()).filter(|uid| !listed.contains(uid)).collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// Takes an object's edges out; answers its owners.
    fn unlink(&mut self, uid: &str) -> Vec<String> {
        let owners: Vec<String> = self
            .items
            .get(uid)
            .into_iter()
            .flat_map(|item| item.owners.iter().map(|owner| owner.uid.clone()))
            .collect();
        for owner in &owners {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        owners
    }
}
