//! A Pod's identity: the token of its service account, the authority that signed the API server, its namespace, as files
//! where every client library looks for them. What kube-apiserver's `ServiceAccount` admission does.

use serde_json::{Value, json};

use crate::object;
use crate::server::ApiServer;

/// Where clients look.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A little more than an hour, as Kubernetes asks for.
const SECONDS: u64 = 3607;

/// Adds the volume and mounts it in every container that has nothing of its own there.
pub fn mount(server: &ApiServer, pod: &mut Value) {
    if !is_wanted(server, pod) {
        return;
    }
    let name = machinery::meta::generate_name("kube-api-access-", rand::random());
    let spec = &mut pod["spec"];
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == PLACE) {
                continue;
            }
            push(&mut container["volumeMounts"], json!({ "name": name, "mountPath": PLACE, "readOnly": true }));
            mounted = true;
        }
    }
    if mounted {
        push(&mut spec["volumes"], volume(&name));
    }
}

/// The Pod decides; when it does not, its account does; when that does not, it is.
fn is_wanted(server: &ApiServer, pod: &Value) -> bool {
    if let Some(own) = pod["spec"]["automountServiceAccountToken"].as_bool() {
        return own;
    }
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    let key = store::Key::new("/serviceaccounts", object::namespace(pod), account);
    let account = server.store().get(&key).map(|entry| object::parse(&entry.value));
    account.and_then(|account| account["automountServiceAccountToken"].as_bool()).unwrap_or(true)
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

fn volume(name: &str) -> Value {
    let namespace =
        json!({ "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } });
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                { "serviceAccountToken": { "path": "token", "expirationSeconds": SECONDS } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                { "downwardAPI": { "items": [namespace] } },
            ],
        },
    })
}
