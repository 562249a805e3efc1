//! Ends Pods that nobody can end any more: those of a node that was deleted, and finished ones beyond a number.

use std::sync::Arc;

use engine::{Controller, Decision, Deletion, Error, Key, Step, Target, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::pods;

/// The controller. It looks at all Pods at once, so it has one key.
pub struct PodCollector {
    /// Finished Pods that are kept; the oldest go first.
    pub finished: usize,
}

/// Pods to end, and why.
pub struct Observed {
    stranded: Vec<Arc<Pod>>,
    finished: Vec<Arc<Pod>>,
}

fn the_key() -> Vec<Key> {
    vec![Key::new("", "pods")]
}

impl Controller for PodCollector {
    const NAME: &'static str = "pod-garbage-collector";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::none()
            .changes::<Node>(|change, _| if change.after.is_none() { the_key() } else { Vec::new() })
            .changes::<Pod>(|change, view| {
                let Some(pod) = &change.after else { return Vec::new() };
                let ended = pods::is_finished(pod) && !change.before.as_ref().is_some_and(|pod| pods::is_finished(pod));
                let stranded = node_of(pod).is_some_and(|node| view.cached::<Node>(&Key::new("", node)).is_none());
                if ended || stranded { the_key() } else { Vec::new() }
            })
    }

    async fn observe(&self, _key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let all = view.list::<Pod>("");
        let mut stranded = Vec::new();
        for pod in &all {
            let Some(node) = node_of(pod).map(|name| Key::new("", name)) else { continue };
            // From the cache, or else from a live read: a node that is merely not known yet keeps its Pods.
            if view.get::<Node>(&node).await?.is_none() {
                stranded.push(Arc::clone(pod));
            }
        }
        let mut finished: Vec<Arc<Pod>> =
            all.into_iter().filter(|pod| pods::is_finished(pod) && pod.metadata.deletion_timestamp.is_none()).collect();
        finished.sort_by_key(|pod| pod.creation_timestamp().map(|time| time.0));
        finished.truncate(finished.len().saturating_sub(self.finished));
        Ok(Some(Observed { stranded, finished }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        for pod in &observed.stranded {
            if !pods::is_finished(pod) {
                mark_failed(&mut decision, pod, now);
            }
            end(&mut decision, pod);
        }
        for pod in &observed.finished {
            end(&mut decision, pod);
        }
        decision
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn mark_failed(decision: &mut Decision, pod: &Pod, now: Timestamp) {
    let mut status = pod.status.clone().unwrap_or_default();
    status.phase = Some("Failed".into());
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != "DisruptionTarget");
    conditions.push(PodCondition {
        type_: "DisruptionTarget".into(),
        status: "True".into(),
        reason: Some("DeletionByPodGC".into()),
        message: Some("PodGC: node no longer exists".into()),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    });
    decision.status(pod, pod.status.as_ref(), &status);
}

fn end(decision: &mut Decision, pod: &Pod) {
    decision.step(Step::Delete(Deletion { target: Target::of(pod), propagation: None, grace_seconds: Some(0) }));
}
