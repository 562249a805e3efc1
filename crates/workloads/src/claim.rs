//! Which objects a controller object has: those it made, and strays with its labels that nobody controls.

use std::sync::Arc;

use engine::{Decision, Key};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::core::{Selector, SelectorExt};
use kube::{Resource, ResourceExt};
use serde_json::json;

/// The objects that belong to an owner.
pub struct Claim<K> {
    /// Controlled by the owner and selected by it.
    pub owned: Vec<Arc<K>>,
    /// Selected, and controlled by nobody: to be taken in.
    adopt: Vec<Arc<K>>,
    /// Controlled, and no longer selected: to be let go.
    release: Vec<Arc<K>>,
}

/// The reference by which an object is controlled.
pub fn controller_reference<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The reference of the object that controls another.
pub fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|reference| reference.controller == Some(true))
}

/// The selector of a workload; one that is empty or malformed selects nothing.
pub fn selector(selector: &LabelSelector) -> Option<Selector> {
    let selector = Selector::try_from(selector.clone()).ok()?;
    (!selector.selects_all()).then_some(selector)
}

impl<K: Resource<DynamicType = ()>> Claim<K> {
    /// Sorts the candidates of the owner's namespace.
    pub fn new<O: Resource<DynamicType = ()>>(owner: &O, selects: &LabelSelector, candidates: Vec<Arc<K>>) -> Self {
        let mut claim = Self { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
        let uid = owner.uid().unwrap_or_default();
        let selector = selector(selects);
        let alive = owner.meta().deletion_timestamp.is_none();
        for candidate in candidates {
            let selected = selector.as_ref().is_some_and(|selector| selector.matches(candidate.labels()));
            let going = candidate.meta().deletion_timestamp.is_some();
            match controller_of(&*candidate) {
                Some(controller) if controller.uid != uid => {}
                Some(_) if selected => claim.owned.push(candidate),
                Some(_) if alive && !going => claim.release.push(candidate),
                None if selected && alive && !going => claim.adopt.push(candidate),
                _ => {}
            }
        }
        claim
    }

    /// Writes the changes of ownership; `true` when there were any, and the rest must wait for them.
    pub fn settle<O: Resource<DynamicType = ()>>(&self, owner: &O, decision: &mut Decision) -> bool {
        for object in &self.adopt {
            let mut references = object.owner_references().to_vec();
            references.push(controller_reference(owner));
            decision.patch(&**object, json!({ "metadata": { "ownerReferences": references } }));
        }
        let uid = owner.uid().unwrap_or_default();
        for object in &self.release {
            let kept: Vec<&OwnerReference> =
                object.owner_references().iter().filter(|reference| reference.uid != uid).collect();
            decision.patch(&**object, json!({ "metadata": { "ownerReferences": kept } }));
        }
        !self.adopt.is_empty() || !self.release.is_empty()
    }
}

/// The key of the object of a kind that controls this one.
pub fn controller_key<K: Resource>(object: &K, kind: &str) -> Vec<Key> {
    let controller = controller_of(object).filter(|controller| controller.kind == kind);
    controller
        .map(|controller| Key::new(object.namespace().unwrap_or_default(), &controller.name))
        .into_iter()
        .collect()
}
