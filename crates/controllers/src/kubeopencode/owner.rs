//! What an owned object's metadata looks like.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

/// Says that an object is kept by us; the engine refuses to touch one that says otherwise.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kubeopencode");

/// Metadata of an object named `name` that belongs to `owner` and goes with it.
pub(crate) fn owned<K: Resource<DynamicType = ()>>(
    owner: &K,
    name: String,
    labels: BTreeMap<String, String>,
) -> ObjectMeta {
    let mut labels = labels;
    labels.insert(MANAGED_BY.0.into(), MANAGED_BY.1.into());
    ObjectMeta {
        name: Some(name),
        namespace: owner.namespace(),
        labels: Some(labels),
        owner_references: Some(vec![reference(owner)]),
        ..ObjectMeta::default()
    }
}

/// The owner, as its dependents name it.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether `object` belongs to the owner with this uid.
pub(crate) fn belongs_to<K: Resource>(object: &K, uid: &str) -> bool {
    object.owner_references().iter().any(|reference| reference.uid == uid)
}
