//! Gives every Pod a node, or says why it cannot have one in the words of kube-scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Call, Change, Controller, Decision, Error, Event, Key, Outcome, Step, Target, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

mod affinity;
mod fit;

use fit::Unfit;
pub use fit::claims;

/// The name Pods ask for when they ask for none.
const SCHEDULER: &str = "default-scheduler";

/// Binds Pods to nodes.
pub struct Scheduler;

/// A Pod without a node, and where it could go.
pub struct Observed {
    pod: Arc<Pod>,
    nodes: Vec<Arc<Node>>,
    /// All Pods that hold or soon will hold room on a node.
    placed: Vec<Arc<Pod>>,
    /// The claims the Pod names, with what was found under each name.
    claims: BTreeMap<String, Option<Arc<PersistentVolumeClaim>>>,
}

impl Controller for Scheduler {
    const NAME: &'static str = SCHEDULER;
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::none()
            .changes::<Pod>(pods_touched)
            .changes::<Node>(|change, view| if room_changed(change) { unscheduled(view, "") } else { Vec::new() })
            .mapped::<PersistentVolumeClaim>(|claim, view| {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
                let waiting = view.list::<Pod>(namespace).into_iter();
                let users = waiting.filter(|pod| is_unscheduled(pod) && fit::claims(pod).any(|used| used == name));
                users.map(|pod| Key::of(&*pod)).collect()
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(pod) = view.cached::<Pod>(key).filter(|pod| is_unscheduled(pod)) else { return Ok(None) };
        let mut claims = BTreeMap::new();
        for name in fit::claims(&pod) {
            let claim = view.get::<PersistentVolumeClaim>(&Key::new(&key.namespace, name)).await?;
            claims.insert(name.to_owned(), claim);
        }
        let placed = view.list::<Pod>("").into_iter().filter(|pod| fit::holds_room(pod)).collect();
        Ok(Some(Observed { pod, nodes: view.list::<Node>(""), placed, claims }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        match fit::choose(&observed.pod, &observed.nodes, &observed.placed, &observed.claims) {
            Ok(node) => bind(&mut decision, &observed.pod, &node),
            Err(unfit) => wait(&mut decision, &observed.pod, &unfit, now),
        }
        decision
    }
}

fn bind(decision: &mut Decision, pod: &Pod, node: &str) {
    let key = Key::of(pod);
    let target = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
    let body = json!({ "apiVersion": "v1", "kind": "Binding", "target": target });
    decision.step(Step::Call(Call { target: Target::of(pod), subresource: "binding", replace: false, body }));
    let words = format!("Successfully assigned {key} to {node}");
    decision.event(Event::normal(pod, "Scheduled", "Binding", words));
}

fn wait(decision: &mut Decision, pod: &Pod, unfit: &Unfit, now: Timestamp) {
    let message = unfit.to_string();
    let current = pod.status.as_ref();
    let mut status = current.cloned().unwrap_or_default();
    set_unschedulable(&mut status, &message, pod.metadata.generation, now);
    decision.status(pod, current, &status);
    if !decision.steps.is_empty() {
        decision.event(Event::warning(pod, "FailedScheduling", "Scheduling", message.clone()));
    }
    decision.outcome(Outcome::Waiting(message));
}

fn set_unschedulable(status: &mut PodStatus, message: &str, generation: Option<i64>, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    let before = conditions.iter().position(|condition| condition.type_ == "PodScheduled");
    let since = before
        .map(|index| &conditions[index])
        .filter(|condition| condition.status == "False")
        .and_then(|condition| condition.last_transition_time.clone());
    let condition = PodCondition {
        type_: "PodScheduled".into(),
        status: "False".into(),
        reason: Some("Unschedulable".into()),
        message: Some(message.to_owned()),
        last_transition_time: since.or(Some(Time(now))),
        observed_generation: generation,
        ..PodCondition::default()
    };
    match before {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

fn is_unscheduled(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == SCHEDULER);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated
        && spec.node_name.as_deref().unwrap_or_default().is_empty()
        && pod.metadata.deletion_timestamp.is_none()
}

fn unscheduled(view: &View, namespace: &str) -> Vec<Key> {
    view.list::<Pod>(namespace).iter().filter(|pod| is_unscheduled(pod)).map(|pod| Key::of(&**pod)).collect()
}

/// A Pod without a node touches itself; one that gives up its room touches all that wait for some.
fn pods_touched(change: &Change<Pod>, view: &View) -> Vec<Key> {
    let held = change.before.as_ref().is_some_and(|pod| fit::holds_room(pod));
    let holds = change.after.as_ref().is_some_and(|pod| fit::holds_room(pod));
    if held && !holds {
        return unscheduled(view, "");
    }
    change.after.iter().filter(|pod| is_unscheduled(pod)).map(|pod| Key::of(&**pod)).collect()
}

/// Heartbeats do not change what fits.
fn room_changed(change: &Change<Node>) -> bool {
    let room = |node: &Arc<Node>| {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
        (node.spec.clone(), node.metadata.labels.clone(), allocatable)
    };
    change.before.as_ref().map(room) != change.after.as_ref().map(room)
}
