//! From a Deployment's template to a ReplicaSet, and back to recognising it.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::claim::controller_reference;
use crate::naming;

/// The label that keeps the Pods of two ReplicaSets apart.
pub const HASH: &str = "pod-template-hash";

/// Whether a ReplicaSet was made from the Deployment's present template.
pub fn matches(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let Some(wanted) = deployment.spec.as_ref().map(|spec| &spec.template) else { return false };
    let Some(mut present) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else { return false };
    if let Some(labels) = present.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH);
    }
    same(wanted, &present)
}

/// Compared as written: an absent list and an empty one are the same.
fn same(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    one == other || normal(one) == normal(other)
}

fn normal(template: &PodTemplateSpec) -> serde_json::Value {
    let mut value = serde_json::to_value(template).expect("a template serializes to JSON");
    prune(&mut value);
    value
}

fn prune(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            let empty = |value: &Value| {
                value.is_null()
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            };
            // `emptyDir: {}` and the like say something by being there; so only what holds nothing inside lists goes.
            fields.retain(|name, value| !empty(value) || name == "emptyDir");
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// The hash by which a template's ReplicaSet is known; `collisions` tells apart templates that hash alike.
pub fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let text = normal(template).to_string();
    naming::letters(naming::hash(&[&text, &collisions.to_string()]), 10)
}

/// The name of the Deployment's next ReplicaSet.
pub fn name(deployment: &Deployment, hash: &str) -> String {
    naming::with_suffix(&deployment.name_any(), hash)
}

/// The ReplicaSet for the present template, without a size.
pub fn build(deployment: &Deployment, hash: &str, annotations: BTreeMap<String, String>) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let mut template = spec.template;
    let marked = |labels: Option<BTreeMap<String, String>>| {
        let mut labels = labels.unwrap_or_default();
        labels.insert(HASH.to_owned(), hash.to_owned());
        Some(labels)
    };
    let mut metadata = template.metadata.take().unwrap_or_default();
    metadata.labels = marked(metadata.labels);
    let labels = metadata.labels.clone();
    template.metadata = Some(metadata);
    let mut selector = spec.selector;
    selector.match_labels = marked(selector.match_labels);
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name(deployment, hash)),
            namespace: deployment.namespace(),
            labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}
