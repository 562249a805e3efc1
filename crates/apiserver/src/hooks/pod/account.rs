//! A Pod's identity: the token of its service account, the authority that signed the API server, its namespace, as files
//! where every client library looks for them. What kube-apiserver's `ServiceAccount` admission does.

use machinery::status::Status;
use serde_json::{Value, json};

use crate::object;
use crate::server::ApiServer;

/// Where clients look.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The account of those who name none.
pub const DEFAULT: &str = "default";
/// A little more than an hour, as Kubernetes asks for.
const SECONDS: u64 = 3607;

/// Gives the Pod what its account has; refuses one whose account is not there.
pub fn admit(server: &ApiServer, pod: &mut Value) -> Result<(), Status> {
    let name = pod["spec"]["serviceAccountName"].as_str().unwrap_or(DEFAULT).to_owned();
    let namespace = object::namespace(pod).to_owned();
    let key = store::Key::new("/serviceaccounts", &namespace, &name);
    let account = match server.store().get(&key) {
        Some(entry) => object::parse(&entry.value),
        // Every namespace gets this one a moment after it is made; the node waits for it.
        None if name == DEFAULT => Value::Null,
        None => {
            let why =
                format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
            return Err(Status::forbidden("", "pods", object::name(pod), why));
        }
    };
    let has_secrets = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|secrets| !secrets.is_empty());
    if !has_secrets && let Some(secrets) = account["imagePullSecrets"].as_array().filter(|list| !list.is_empty()) {
        pod["spec"]["imagePullSecrets"] = json!(secrets);
    }
    // The Pod decides; when it does not, its account does; when that does not, it is.
    let own = pod["spec"]["automountServiceAccountToken"].as_bool();
    if own.or(account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
        mount(pod);
    }
    Ok(())
}

/// Adds the volume and mounts it in every container that has nothing of its own there.
fn mount(pod: &mut Value) {
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
