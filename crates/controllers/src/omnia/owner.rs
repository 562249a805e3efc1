//! What the metadata of our objects looks like.

use std::collections::BTreeMap;

use api::omnia::names::COMPONENT_LABEL;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::kubeopencode::owner::reference;

/// Says that an object is kept by us; the engine refuses to touch one that says otherwise.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "omnia-operator");

/// Labels of an object that is this part of the platform and belongs to `instance`.
pub(super) fn labels(component: &str, instance: &str) -> BTreeMap<String, String> {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    BTreeMap::from([
        label("app.kubernetes.io/name", "omnia-agent"),
        label("app.kubernetes.io/instance", instance),
        label(MANAGED_BY.0, MANAGED_BY.1),
        label(COMPONENT_LABEL, component),
    ])
}

/// Metadata of an object that belongs to `owner` and goes with it.
pub(super) fn owned<K: Resource<DynamicType = ()>>(
    owner: &K,
    name: String,
    labels: BTreeMap<String, String>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: owner.meta().namespace.clone(),
        labels: Some(labels),
        owner_references: Some(vec![reference(owner)]),
        ..ObjectMeta::default()
    }
}
