//! What a ReplicaSet says of its Pods.

use std::sync::Arc;
use std::time::Duration;

use engine::Decision;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::current;
use crate::pods;

/// Counts the Pods into the status, and looks again when the next one becomes available.
pub fn write(
    decision: &mut Decision,
    set: &ReplicaSet,
    owned: &[Arc<Pod>],
    failed: Option<ReplicaSetCondition>,
    now: Timestamp,
) {
    let active: Vec<&Pod> = owned.iter().map(|pod| &**pod).filter(|pod| pods::is_active(pod)).collect();
    let seconds = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let needed = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let template =
        set.spec.as_ref().and_then(|spec| spec.template.as_ref()).and_then(|template| template.metadata.as_ref());
    let labels = template.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    let labelled = |pod: &&&Pod| labels.iter().all(|(name, value)| pod.labels().get(name) == Some(value));

    let mut status = current(set);
    let available = |pod: &&&Pod| match pods::ready_since(pod).map(|since| since + needed) {
        Some(at) => at <= now || needed.is_zero(),
        None => pods::is_ready(pod) && needed.is_zero(),
    };
    status.replicas = count(active.len());
    status.fully_labeled_replicas = some(active.iter().filter(labelled).count());
    status.ready_replicas = some(active.iter().filter(|pod| pods::is_ready(pod)).count());
    status.available_replicas = some(active.iter().filter(available).count());
    let ending = |pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_some() && !pods::is_finished(pod);
    status.terminating_replicas = Some(count(owned.iter().filter(ending).count()));
    status.observed_generation = set.metadata.generation;
    let conditions = status.conditions.get_or_insert_default();
    let since = conditions.iter().find(|condition| condition.type_ == "ReplicaFailure").cloned();
    conditions.retain(|condition| condition.type_ != "ReplicaFailure");
    if let Some(mut failed) = failed {
        if let Some(since) = since {
            failed.last_transition_time = since.last_transition_time;
        }
        conditions.push(failed);
    }
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    decision.status(set, set.status.as_ref(), &status);

    let next =
        active.iter().filter_map(|pod| pods::ready_since(pod)).map(|since| since + needed).filter(|at| *at > now);
    if let Some(at) = next.min() {
        decision.look_again(at);
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Zeros are left out, as Kubernetes does.
fn some(number: usize) -> Option<i32> {
    (number > 0).then(|| count(number))
}
