//! What is compared: everything but times, addresses, uids, versions and the letters of hashes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

const PASSING: &[&str] = &["lastTransitionTime", "lastUpdateTime", "resourceVersion", "uid", "creationTimestamp"];

/// A Deployment and its ReplicaSets, which are named by their revision.
pub fn rollout(deployment: &Value, sets: &[Value]) -> Value {
    let revision = |object: &Value| object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone();
    let names: BTreeMap<String, String> = sets
        .iter()
        .map(|set| {
            let name = set["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, format!("set-{}", revision(set).as_str().unwrap_or("?")))
        })
        .collect();
    let mut described: Vec<Value> = sets
        .iter()
        .map(|set| {
            // How often a ReplicaSet was resized depends on how fast its Pods came up.
            let mut status = set["status"].clone();
            status["observedGeneration"] = json!(status["observedGeneration"] == set["metadata"]["generation"]);
            json!({
                "annotations": set["metadata"]["annotations"], "replicas": set["spec"]["replicas"], "status": status,
                "owners": owners(set),
            })
        })
        .collect();
    described.sort_by_key(|set| set["annotations"]["deployment.kubernetes.io/revision"].to_string());
    let mut seen = json!({
        "revision": revision(deployment),
        "status": deployment["status"],
        "sets": described,
    });
    if let Some(conditions) = seen["status"]["conditions"].as_array_mut() {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    clean(&mut seen, &names);
    seen
}

/// The kinds and names of the owners.
pub fn owners(object: &Value) -> Value {
    let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let owners =
        references.iter().map(|owner| json!([owner["kind"], owner["controller"], owner["blockOwnerDeletion"]]));
    owners.collect()
}

/// An EndpointSlice without what differs from run to run.
pub fn slice(slice: &Value) -> Value {
    let mut endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    for endpoint in &mut endpoints {
        endpoint["addresses"] = json!(endpoint["addresses"].as_array().map(Vec::len));
        endpoint["targetRef"] = json!([endpoint["targetRef"]["kind"], endpoint["targetRef"]["namespace"]]);
    }
    endpoints.sort_by_key(ToString::to_string);
    // Their order means nothing.
    let mut ports = slice["ports"].as_array().cloned().unwrap_or_default();
    ports.sort_by_key(ToString::to_string);
    json!({
        "labels": slice["metadata"]["labels"], "owners": owners(slice), "type": slice["addressType"],
        "ports": ports, "endpoints": endpoints,
    })
}

fn clean(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !PASSING.contains(&name.as_str()));
            fields.values_mut().for_each(|field| clean(field, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, names)),
        Value::String(text) => {
            for (name, revision) in names {
                *text = text.replace(name, revision);
            }
        }
        _ => {}
    }
}
