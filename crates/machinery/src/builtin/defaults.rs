//! Defaults of built-in kinds that depend on other fields. Those that do not are in the table.

use serde_json::{Value, json};

use super::schema;
use crate::crd;

/// Fills in every default of a built-in kind: those of the table, then those that follow from them.
pub fn default(api_version: &str, kind: &str, object: &mut Value) {
    if let Some(schema) = schema(api_version, kind) {
        crate::schema::default(&schema, object);
    }
    match (api_version, kind) {
        ("v1", "Pod") => pod(object),
        ("v1", "Service") => service(object),
        ("v1", "Namespace") => namespace(object),
        ("v1", "Node") => node(object),
        ("apps/v1", "Deployment") => {
            deployment(&mut object["spec"]);
            pod_spec(&mut object["spec"]["template"]["spec"]);
        }
        ("apps/v1", "ReplicaSet") => pod_spec(&mut object["spec"]["template"]["spec"]),
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => crd::default(object),
        _ => {}
    }
}

fn pod(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    pod_spec(spec);
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
            if host_network {
                for port in items_mut(container, "ports") {
                    let container_port = port["containerPort"].clone();
                    put_if_absent(port, "hostPort", container_port);
                }
            }
        }
    }
    put_if_absent(spec, "enableServiceLinks", Value::Bool(true));
}

/// What a limit caps is also asked for, unless told otherwise.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"].get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

/// Defaults of Pods and of templates of Pods.
fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    // A pointer in Go: unlike the structs that are always there, someone comes to own it.
    put_if_absent(spec, "securityContext", json!({}));
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items_mut(spec, list) {
            let policy = pull_policy(container["image"].as_str().unwrap_or_default());
            put_if_absent(container, "imagePullPolicy", policy.into());
        }
    }
    for volume in items_mut(spec, "volumes") {
        if volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name")) {
            put_if_absent(volume, "emptyDir", json!({}));
        }
        if volume["image"].is_object() {
            let policy = pull_policy(volume["image"]["reference"].as_str().unwrap_or_default());
            put_if_absent(&mut volume["image"], "pullPolicy", policy.into());
        }
    }
    // Two names of one field; both are kept in step.
    let account =
        ["serviceAccountName", "serviceAccount"].iter().find_map(|key| spec[*key].as_str().map(str::to_owned));
    if let Some(account) = account {
        spec["serviceAccountName"] = account.as_str().into();
        spec["serviceAccount"] = account.into();
    }
}

/// Images without a tag, or tagged `latest`, are looked up every time.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let (name, digest) = name.split_once('@').map_or((name, None), |(name, digest)| (name, Some(digest)));
    match (name.split_once(':'), digest) {
        (Some((_, "latest")), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

fn service(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    match spec["sessionAffinity"].as_str() {
        Some("None") => {
            spec.as_object_mut().map(|fields| fields.remove("sessionAffinityConfig"));
        }
        Some("ClientIP") if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] = json!({ "clientIP": { "timeoutSeconds": 10_800 } });
        }
        _ => {}
    }
    for port in items_mut(spec, "ports") {
        if port["targetPort"] == 0 || port["targetPort"] == "" || port.get("targetPort").is_none() {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let has_external_ips = spec["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty());
    let outside = matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && has_external_ips);
    if outside {
        put_if_absent(spec, "externalTrafficPolicy", "Cluster".into());
    }
    if kind != "ExternalName" {
        put_if_absent(spec, "internalTrafficPolicy", "Cluster".into());
    }
    if kind == "LoadBalancer" {
        put_if_absent(spec, "allocateLoadBalancerNodePorts", Value::Bool(true));
    }
}

fn namespace(namespace: &mut Value) {
    let Some(name) = namespace["metadata"]["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned) else {
        return;
    };
    let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if labels.is_null() {
        *labels = json!({});
    }
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

fn node(node: &mut Value) {
    let capacity = node["status"]["capacity"].clone();
    if capacity.is_object() {
        put_if_absent(&mut node["status"], "allocatable", capacity);
    }
}

fn deployment(spec: &mut Value) {
    if spec["strategy"]["type"] == "RollingUpdate" {
        put_if_absent(&mut spec["strategy"], "rollingUpdate", json!({}));
        for limit in ["maxUnavailable", "maxSurge"] {
            put_if_absent(&mut spec["strategy"]["rollingUpdate"], limit, "25%".into());
        }
    }
}

/// Users and groups are names of the RBAC group, service accounts of none.
fn binding(binding: &mut Value) {
    for subject in items_mut(binding, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            put_if_absent(subject, "apiGroup", "rbac.authorization.k8s.io".into());
        }
    }
}

fn put_if_absent(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut()
        && fields.get(key).is_none_or(Value::is_null)
    {
        fields.insert(key.to_owned(), value);
    }
}

fn items_mut<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    let list = object.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|item| item.is_object())
}
