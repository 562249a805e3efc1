//! ReplicaSet: so many Pods, no more and no fewer.

use std::sync::Arc;

use engine::{Controller, Decision, Error, Event, Failure, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::ResourceExt;
use kube::core::SelectorExt;

use crate::claim::{Claim, controller_key, controller_of, selector};

mod pods;
mod status;

/// The controller.
pub struct ReplicaSets;

/// A ReplicaSet and its Pods.
pub struct Observed {
    set: Arc<ReplicaSet>,
    pods: Claim<Pod>,
}

impl Controller for ReplicaSets {
    const NAME: &'static str = "replicaset-controller";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<ReplicaSet>().mapped::<Pod>(|pod, view| match controller_of(pod) {
            Some(_) => controller_key(pod, "ReplicaSet"),
            // A stray may be wanted by whoever selects it.
            None => selecting(pod, view),
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(mut set) = view.cached::<ReplicaSet>(key) else { return Ok(None) };
        let pods = Claim::new(&*set, selects(&set), view.list::<Pod>(&key.namespace));
        if pods::missing(&set, &pods.owned) > 0 {
            // About to make some: they may be missing because the ReplicaSet is gone, and the cache does not know yet.
            match view.live::<ReplicaSet>(key).await? {
                Some(live) if live.uid() == set.uid() => set = live,
                _ => return Ok(None),
            }
        }
        Ok(Some(Observed { set, pods }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        let Observed { set, pods } = observed;
        let mut decision = Decision::none();
        if pods.settle(&**set, &mut decision) {
            return decision;
        }
        if set.metadata.deletion_timestamp.is_none() {
            pods::balance(&mut decision, set, &pods.owned, now);
        }
        // Reached only when all Pods could be made: whatever failed before is over.
        status::write(&mut decision, set, &pods.owned, None, now);
        decision
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        let condition = ReplicaSetCondition {
            type_: "ReplicaFailure".into(),
            status: "True".into(),
            reason: Some("FailedCreate".into()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(Time(now)),
        };
        status::write(&mut decision, &observed.set, &observed.pods.owned, Some(condition), now);
        decision.event(Event::warning(
            &*observed.set,
            "FailedCreate",
            "Create",
            format!("Error creating: {}", failure.message),
        ));
        decision
    }
}

/// The selector, which the API server requires.
fn selects(set: &ReplicaSet) -> &LabelSelector {
    static NOTHING: LabelSelector = LabelSelector { match_expressions: None, match_labels: None };
    set.spec.as_ref().map_or(&NOTHING, |spec| &spec.selector)
}

fn selecting(pod: &Pod, view: &View) -> Vec<Key> {
    let sets = view.list::<ReplicaSet>(&pod.namespace().unwrap_or_default());
    let wants = |set: &Arc<ReplicaSet>| selector(selects(set)).is_some_and(|selector| selector.matches(pod.labels()));
    sets.iter().filter(|set| wants(set)).map(|set| Key::of(&**set)).collect()
}

/// The status as it is.
fn current(set: &ReplicaSet) -> ReplicaSetStatus {
    set.status.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests;
