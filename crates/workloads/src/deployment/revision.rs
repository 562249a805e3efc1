//! Revisions, kept in annotations so that `kubectl rollout history` and `undo` find them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;

use super::plan::Plan;

/// The revision an object stands for.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a ReplicaSet that was rolled back to.
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's size when the ReplicaSet was last sized.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The same with the surge.
pub const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The revision of a ReplicaSet; 0 when it has none.
pub fn of(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The revision the new ReplicaSet should have: one more than all others.
pub fn next(plan: &Plan<'_>) -> i64 {
    plan.old.iter().map(|member| of(&member.set)).max().unwrap_or(0) + 1
}

/// The Deployment's annotations as its ReplicaSets carry them.
pub fn inherited(deployment: &Deployment) -> BTreeMap<String, String> {
    let own = |name: &str| matches!(name, LAST_APPLIED | REVISION | HISTORY | DESIRED | MAXIMUM);
    let annotations = deployment.annotations().iter();
    annotations.filter(|(name, _)| !own(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The annotations a ReplicaSet gets when it becomes the new one (again).
pub fn annotations(plan: &Plan<'_>, set: Option<&ReplicaSet>) -> BTreeMap<String, String> {
    let mut annotations = inherited(plan.deployment);
    let newest = next(plan);
    let present = set.map_or(0, of);
    if present < newest {
        annotations.insert(REVISION.to_owned(), newest.to_string());
        if present > 0 {
            let history = set.and_then(|set| set.annotations().get(HISTORY)).filter(|history| !history.is_empty());
            let history = history.map_or_else(|| present.to_string(), |history| format!("{history},{present}"));
            annotations.insert(HISTORY.to_owned(), history);
        }
    }
    annotations
}

/// The annotations that remember the size, for proportional scaling.
pub fn sizes(plan: &Plan<'_>) -> [(&'static str, String); 2] {
    [(DESIRED, plan.replicas.to_string()), (MAXIMUM, plan.max_total().to_string())]
}

/// A number kept in an annotation.
pub fn number(set: &ReplicaSet, name: &str) -> Option<i32> {
    set.annotations().get(name)?.parse().ok()
}
