//! A rollout in numbers: what is, and what should be.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::template;

/// One ReplicaSet of the Deployment, and how large it should become.
#[derive(Clone)]
pub struct Member {
    pub set: Arc<ReplicaSet>,
    /// The size as it is written in its specification.
    pub before: i32,
    /// The size it should have.
    pub replicas: i32,
}

impl Member {
    pub fn new(set: &Arc<ReplicaSet>) -> Self {
        let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        Self { set: Arc::clone(set), before: replicas, replicas }
    }

    /// The Pods that serve. A ReplicaSet that was just made smaller may not have counted again yet: no more will be
    /// left than it asks for.
    pub fn available(&self) -> i32 {
        let counted = self.set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        counted.min(self.before)
    }
}

/// The Deployment's wishes and its ReplicaSets: the new one, and the old ones from oldest to youngest.
pub struct Plan<'a> {
    pub deployment: &'a Deployment,
    pub replicas: i32,
    pub max_surge: i32,
    pub max_unavailable: i32,
    pub new: Option<Member>,
    pub old: Vec<Member>,
}

impl<'a> Plan<'a> {
    pub fn new(deployment: &'a Deployment, sets: &[Arc<ReplicaSet>]) -> Self {
        let mut sorted: Vec<&Arc<ReplicaSet>> = sets.iter().collect();
        sorted.sort_by_key(|set| (set.creation_timestamp().map(|time| time.0), set.name_any()));
        // Should two ReplicaSets have the same template, the older one is the new one, as in Kubernetes.
        let new = sorted.iter().position(|set| template::matches(deployment, set)).map(|index| sorted.remove(index));
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let (max_surge, max_unavailable) = bounds(deployment, replicas);
        Self {
            deployment,
            replicas,
            max_surge,
            max_unavailable,
            new: new.map(Member::new),
            old: sorted.into_iter().map(Member::new).collect(),
        }
    }

    pub fn recreates(&self) -> bool {
        let strategy = self.deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
        strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
    }

    /// The most Pods there may be at a time.
    pub fn max_total(&self) -> i32 {
        self.replicas.saturating_add(self.max_surge)
    }

    pub fn all(&self) -> impl Iterator<Item = &Member> {
        self.new.iter().chain(&self.old)
    }

    /// The Pods all ReplicaSets ask for.
    pub fn total(&self) -> i32 {
        self.all().map(|member| member.replicas).sum()
    }
}

/// `maxSurge` (rounded up) and `maxUnavailable` (rounded down) as numbers of Pods; never both zero.
fn bounds(deployment: &Deployment, replicas: i32) -> (i32, i32) {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        return (0, 0);
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let quarter = IntOrString::String("25%".into());
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()).unwrap_or(&quarter);
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).unwrap_or(&quarter);
    match (resolve(surge, replicas, true), resolve(unavailable, replicas, false)) {
        (0, 0) => (0, 1),
        (surge, unavailable) => (surge, unavailable.min(replicas)),
    }
}

fn resolve(value: &IntOrString, whole: i32, up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let part = percent * i64::from(whole);
            i32::try_from(if up { (part + 99).div_euclid(100) } else { part / 100 }).unwrap_or(i32::MAX)
        }
    }
}
