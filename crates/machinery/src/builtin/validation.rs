//! What built-in kinds must be beyond their schema, in Kubernetes' words.
//!
//! The schema already sees to required fields, types and enumerations. Metadata is checked in
//! [`crate::meta`].

mod claim;
mod container;
mod data;
mod pod;
mod rbac;
mod service;
mod workload;

use serde_json::Value;

use crate::field::{self, Path};
use crate::status::Cause;

/// Checks an object of a built-in kind, against what is stored on an update.
pub fn validate(api_version: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = by_kind(api_version, kind, object, old);
    if old.is_none() && !api_version.starts_with("apiextensions") {
        causes.extend(finalizers(&object["metadata"]));
    }
    causes
}

/// Finalizers of built-in kinds name who they belong to.
fn finalizers(metadata: &Value) -> Vec<Cause> {
    let path = Path::new("metadata.finalizers");
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let standard = |name: &str| name.contains('/') || ["orphan", "foregroundDeletion", "kubernetes"].contains(&name);
    let named = list(&metadata["finalizers"]).iter().map(text).enumerate();
    named
        .filter(|(_, name)| !standard(name))
        .map(|(index, name)| field::invalid_text(&path.index(index), name, detail))
        .collect()
}

fn by_kind(api_version: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    match (api_version, kind) {
        ("v1", "Pod") => pod::pod(object, old),
        ("v1", "Service") => service::service(object, old),
        ("v1", "ConfigMap") => data::config_map(object, old),
        ("v1", "Secret") => data::secret(object, old),
        ("v1", "PersistentVolumeClaim") => claim::claim(object, old),
        ("apps/v1", "Deployment") => workload::deployment(object, old),
        ("apps/v1", "ReplicaSet") => workload::replica_set(object, old),
        ("rbac.authorization.k8s.io/v1", "Role") => rbac::role(object, true),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => rbac::role(object, false),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => rbac::binding(object, old, true),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => rbac::binding(object, old, false),
        ("coordination.k8s.io/v1", "Lease") => lease(&object["spec"]),
        ("discovery.k8s.io/v1", "EndpointSlice") => endpoint_slice(object),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => crate::crd::validate(object, old),
        _ => Vec::new(),
    }
}

fn endpoint_slice(slice: &Value) -> Vec<Cause> {
    let path = Path::new("endpoints");
    let empty =
        list(&slice["endpoints"]).iter().enumerate().filter(|(_, endpoint)| list(&endpoint["addresses"]).is_empty());
    empty
        .map(|(index, _)| field::required(&path.index(index).child("addresses"), "must contain at least 1 address"))
        .collect()
}

fn lease(spec: &Value) -> Vec<Cause> {
    let path = Path::new("spec");
    let mut causes = Vec::new();
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.push(field::invalid(
            &path.child("leaseDurationSeconds"),
            &spec["leaseDurationSeconds"],
            "must be greater than 0",
        ));
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|count| count < 0) {
        let detail = "must be greater than or equal to 0";
        causes.push(field::invalid(&path.child("leaseTransitions"), &spec["leaseTransitions"], detail));
    }
    causes
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// One cause for each problem that a rule of [`crate::meta::names`] finds.
fn named<'a>(path: &'a Path<'a>, value: &'a str, problems: Vec<String>) -> impl Iterator<Item = Cause> + use<'a> {
    problems.into_iter().map(move |problem| field::invalid_text(path, value, &problem))
}

fn not_negative(value: &Value, path: &Path<'_>) -> Option<Cause> {
    let negative = value.as_i64().is_some_and(|number| number < 0);
    negative.then(|| field::invalid(path, value, "must be greater than or equal to 0"))
}

/// A port by number or by name.
fn port(value: &Value, path: &Path<'_>) -> Vec<Cause> {
    let problems = match value {
        Value::String(name) => crate::meta::names::port_name(name),
        other => crate::meta::names::port_number(other.as_i64().unwrap_or(0)),
    };
    let zero = Value::from(0);
    let value = if value.is_null() { &zero } else { value };
    problems.iter().map(|problem| field::invalid(path, value, problem)).collect()
}
