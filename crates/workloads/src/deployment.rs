//! Deployment: rolls from one ReplicaSet to the next, and back.
//!
//! `decide` follows the deployment controller of kube-controller-manager step by step, because `kubectl rollout` reads
//! its revisions, conditions and words. Each look makes one move; the ReplicaSets' answers bring the next look.

use std::sync::Arc;

use engine::{Controller, Decision, Error, Event, Failure, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::SelectorExt;

use crate::claim::{Claim, controller_key, controller_of, selector};

mod decide;
mod plan;
mod proportion;
mod revision;
mod rolling;
mod status;
mod template;

/// The controller.
pub struct Deployments;

/// A Deployment, its ReplicaSets, and whether old Pods still run.
pub struct Observed {
    deployment: Arc<Deployment>,
    sets: Claim<ReplicaSet>,
    /// Pods of its ReplicaSets that have not ended, by the ReplicaSet's uid. Only `Recreate` needs them.
    running: Vec<String>,
}

impl Controller for Deployments {
    const NAME: &'static str = "deployment-controller";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<Deployment>()
            .mapped::<ReplicaSet>(|set, view| match controller_of(set) {
                Some(_) => controller_key(set, "Deployment"),
                None => selecting(set, view),
            })
            // Only the end of a Pod matters here, to a Deployment that waits for it.
            .changes::<Pod>(|change, view| match (&change.before, &change.after) {
                (Some(before), after) if after.as_ref().is_none_or(|pod| crate::pods::is_finished(pod)) => {
                    let set =
                        controller_key(&**before, "ReplicaSet").first().and_then(|key| view.cached::<ReplicaSet>(key));
                    set.map(|set| controller_key(&*set, "Deployment")).unwrap_or_default()
                }
                _ => Vec::new(),
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(deployment) = view.cached::<Deployment>(key) else { return Ok(None) };
        let Some(spec) = &deployment.spec else { return Ok(None) };
        let sets = Claim::new(&*deployment, &spec.selector, view.list::<ReplicaSet>(&key.namespace));
        if !sets.owned.iter().any(|set| template::matches(&deployment, set)) {
            // About to make one: it may be missing because the Deployment is gone, and the cache does not know yet.
            let live = view.live::<Deployment>(key).await?;
            if live.is_none_or(|live| live.uid() != deployment.uid()) {
                return Ok(None);
            }
        }
        let recreates = spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate");
        let mut running = Vec::new();
        for set in sets.owned.iter().filter(|_| recreates) {
            let uid = set.uid().unwrap_or_default();
            let pods = view.owned::<Pod>(&uid);
            running.extend(pods.iter().filter(|pod| !crate::pods::is_finished(pod)).map(|_| uid.clone()));
        }
        Ok(Some(Observed { deployment, sets, running }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        if !observed.sets.settle(&*observed.deployment, &mut decision) {
            decide::decide(&mut decision, &observed.deployment, &observed.sets.owned, &observed.running, now);
        }
        decision
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        let deployment = &*observed.deployment;
        let message = format!("Failed to create new replica set: {}", failure.message);
        status::refused(&mut decision, deployment, &message, now);
        decision.event(Event::warning(deployment, "ReplicaSetCreateError", "Create", message));
        decision
    }
}

fn selecting(set: &ReplicaSet, view: &View) -> Vec<Key> {
    let deployments = view.list::<Deployment>(&set.namespace().unwrap_or_default());
    let wants = |deployment: &Arc<Deployment>| {
        let spec = deployment.spec.as_ref();
        spec.and_then(|spec| selector(&spec.selector)).is_some_and(|selector| selector.matches(set.labels()))
    };
    deployments.iter().filter(|deployment| wants(deployment)).map(|deployment| Key::of(&**deployment)).collect()
}

#[cfg(test)]
mod tests;
