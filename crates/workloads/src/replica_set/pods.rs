//! Which Pods to make and which to end.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use engine::{Decision, Event};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::claim::controller_reference;
use crate::{naming, pods};

/// As many as kube-controller-manager starts at once; the rest follows when these are there.
const BURST: usize = 500;
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How many Pods there are too few.
pub fn missing(set: &ReplicaSet, owned: &[Arc<Pod>]) -> usize {
    wanted(set).saturating_sub(owned.iter().filter(|pod| pods::is_active(pod)).count())
}

fn wanted(set: &ReplicaSet) -> usize {
    usize::try_from(set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)).unwrap_or_default()
}

/// Makes the missing Pods or ends those that are too many.
pub fn balance(decision: &mut Decision, set: &ReplicaSet, owned: &[Arc<Pod>], now: Timestamp) {
    let missing = missing(set, owned);
    if missing > 0 {
        let taken: HashSet<String> = owned.iter().map(|pod| pod.name_any()).collect();
        for name in free_names(set, &taken).take(missing.min(BURST)) {
            decision.create(&new_pod(set, &name));
            decision.event(Event::normal(set, "SuccessfulCreate", "Create", format!("Created pod: {name}")));
        }
        return;
    }
    let active: Vec<&Arc<Pod>> = owned.iter().filter(|pod| pods::is_active(pod)).collect();
    let excess = active.len() - wanted(set);
    for pod in victims(active, now).into_iter().take(excess.min(BURST)) {
        decision.delete(&**pod);
        let words = format!("Deleted pod: {}", pod.name_any());
        decision.event(Event::normal(set, "SuccessfulDelete", "Delete", words));
    }
}

/// Names that follow from the ReplicaSet alone: two controllers, or one that crashed, make the same Pods. Its version is
/// part of them, and every Pod that comes or goes moves it through the status: a name is never used again, so whoever
/// waits for a Pod to be gone is not fooled by its successor.
fn free_names<'a>(set: &'a ReplicaSet, taken: &'a HashSet<String>) -> impl Iterator<Item = String> + 'a {
    let (uid, version) = (set.uid().unwrap_or_default(), set.resource_version().unwrap_or_default());
    let name = set.name_any();
    let named = move |ordinal: usize| {
        let hash = naming::hash(&[&uid, &version, &ordinal.to_string()]);
        naming::with_suffix(&name, &naming::letters(hash, 5))
    };
    (0..).map(named).filter(|name| !taken.contains(name))
}

fn new_pod(set: &ReplicaSet, name: &str) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: set.namespace(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Those that are missed least come first: not placed, not started, not ready, cheap, ready for the shortest time,
/// restarted most often, youngest.
fn victims(mut active: Vec<&Arc<Pod>>, now: Timestamp) -> Vec<&Arc<Pod>> {
    active.sort_by_key(|pod| {
        let placed =
            pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref().is_some_and(|name| !name.is_empty()));
        let progress = match pods::phase(pod) {
            "Pending" | "" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost: i32 = pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0);
        let ready = pods::is_ready(pod);
        let young = Reverse(pod.creation_timestamp().map(|time| time.0));
        (
            placed,
            progress,
            ready,
            cost,
            Reverse(pods::ready_since(pod).unwrap_or(now)),
            Reverse(pods::restarts(pod)),
            young,
            pod.name_any(),
        )
    });
    active
}
