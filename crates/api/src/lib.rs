//! What users write: the custom resources of every dialect that Orrery serves, as plain data.
//!
//! Owns the types, their schemas (validation, defaults, printer columns, a description on every field) and the pure
//! rules that combine them, such as an Agent over its template. Refuses to know a client, a clock or a file system.
//! Invariant: every schema is structural, so a real kube-apiserver and the embedded plane accept the same definitions,
//! and a field that is not built is not in the schema: strict validation names it instead of dropping it.

mod conditions;
pub mod duration;
pub mod kubeopencode;
pub mod omnia;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Every custom resource definition of every dialect, ready to be applied to a cluster.
pub fn crds() -> Vec<CustomResourceDefinition> {
    kubeopencode::crds().into_iter().chain(omnia::crds()).collect()
}
