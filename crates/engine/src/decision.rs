//! What a controller wants done. Plain data: building one touches neither clock nor network.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::api::PropagationPolicy;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::key::{Object, Target};

/// What to do, in the order in which it is stated; the engine stops at the first step that fails.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    /// Writes, in order.
    pub steps: Vec<Step>,
    /// What to tell the user, each when the steps before it and the next one are done.
    pub events: Vec<Event>,
    /// For each event, how many steps were stated before it.
    stated_after: Vec<usize>,
    /// When to decide again even if nothing changes.
    pub look_again: Option<Timestamp>,
    /// How the matter stands.
    pub outcome: Outcome,
}

/// How the matter stands after a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Outcome {
    /// As desired, or on the way and nothing is wrong.
    #[default]
    Done,
    /// Something else must happen first; looked at on its change and after 30 s at the latest.
    Waiting(String),
    /// Something failed that may work later: tried again after 5 s, doubling to 5 min.
    Retry(String),
    /// Cannot work as it is written: nothing is tried until something changes.
    Permanent(String),
}

/// One write.
#[derive(Debug, Clone)]
pub enum Step {
    /// Server-side apply; skipped when nothing would change; refused when the object belongs to someone else.
    Apply(Object),
    /// Create unless it is there already; an existing object must be ours.
    Create(Object),
    /// Delete exactly this version of this object.
    Delete(Deletion),
    /// Change exactly this version of this object.
    Patch(Patch),
    /// Use a subresource that takes an object of its own, such as `binding`.
    Call(Call),
}

/// A request to a subresource of an observed object.
#[derive(Debug, Clone)]
pub struct Call {
    /// What.
    pub target: Target,
    /// `binding`, `finalize`, `eviction` …
    pub subresource: &'static str,
    /// `PUT` instead of `POST`.
    pub replace: bool,
    /// The object to send; the engine adds the target's name, uid and resourceVersion to its metadata.
    pub body: Value,
}

/// A delete with uid and resourceVersion preconditions.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// What.
    pub target: Target,
    /// What becomes of dependents; the kind's default when `None`.
    pub propagation: Option<PropagationPolicy>,
    /// Grace period in seconds; the object's own when `None`.
    pub grace_seconds: Option<u32>,
}

/// A merge patch that applies only to the observed version of an object.
#[derive(Debug, Clone)]
pub struct Patch {
    /// What.
    pub target: Target,
    /// The merge patch, without the precondition (the engine adds it).
    pub body: Value,
    /// `status`, or another subresource; the object itself when `None`.
    pub subresource: Option<&'static str>,
}

/// Something to tell the user: becomes an `events.k8s.io/v1` Event, repeated ones become a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The object the user looks at.
    pub regarding: ObjectReference,
    /// Whether it needs attention.
    pub warning: bool,
    /// Why, in one CamelCase word.
    pub reason: String,
    /// What was done or attempted, in one CamelCase word.
    pub action: String,
    /// The sentence a human reads.
    pub note: String,
}

impl Decision {
    /// Nothing to do.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a server-side apply.
    pub fn apply<K: Resource<DynamicType = ()> + Serialize>(&mut self, object: &K) -> &mut Self {
        self.step(Step::Apply(Object::of(object)))
    }

    /// Adds a create-once.
    pub fn create<K: Resource<DynamicType = ()> + Serialize>(&mut self, object: &K) -> &mut Self {
        self.step(Step::Create(Object::of(object)))
    }

    /// Adds a delete of the observed version, with the kind's default propagation.
    pub fn delete<K: Resource<DynamicType = ()>>(&mut self, observed: &K) -> &mut Self {
        self.step(Step::Delete(Deletion { target: Target::of(observed), propagation: None, grace_seconds: None }))
    }

    /// Makes the status of `observed` equal to `status`; nothing is written when it already is.
    pub fn status<K, S>(&mut self, observed: &K, current: Option<&S>, status: &S) -> &mut Self
    where
        K: Resource<DynamicType = ()>,
        S: Serialize,
    {
        let value = |status: &S| serde_json::to_value(status).expect("a status serializes to JSON");
        let current = current.map_or_else(|| Value::Object(Map::new()), value);
        match merge_difference(&current, &value(status)) {
            Some(difference) => self.step(Step::Patch(Patch {
                target: Target::of(observed),
                body: json!({ "status": difference }),
                subresource: Some("status"),
            })),
            None => self,
        }
    }

    /// Adds a merge patch of the observed version.
    pub fn patch<K: Resource<DynamicType = ()>>(&mut self, observed: &K, body: Value) -> &mut Self {
        self.step(Step::Patch(Patch { target: Target::of(observed), body, subresource: None }))
    }

    /// Sets (`Some`) or removes (`None`) annotations; those that are right already are left out.
    pub fn annotate<'a, K: Resource<DynamicType = ()>>(
        &mut self,
        observed: &K,
        annotations: impl IntoIterator<Item = (&'a str, Option<String>)>,
    ) -> &mut Self {
        let changes = map_changes(observed.meta().annotations.as_ref(), annotations);
        if changes.is_empty() { self } else { self.patch(observed, json!({ "metadata": { "annotations": changes } })) }
    }

    /// Sets (`Some`) or removes (`None`) labels; those that are right already are left out.
    pub fn label<'a, K: Resource<DynamicType = ()>>(
        &mut self,
        observed: &K,
        labels: impl IntoIterator<Item = (&'a str, Option<String>)>,
    ) -> &mut Self {
        let changes = map_changes(observed.meta().labels.as_ref(), labels);
        if changes.is_empty() { self } else { self.patch(observed, json!({ "metadata": { "labels": changes } })) }
    }

    /// Adds a finalizer unless it is there.
    pub fn add_finalizer<K: Resource<DynamicType = ()>>(&mut self, observed: &K, finalizer: &str) -> &mut Self {
        let mut finalizers = observed.meta().finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|present| present == finalizer) {
            return self;
        }
        finalizers.push(finalizer.to_owned());
        self.patch(observed, json!({ "metadata": { "finalizers": finalizers } }))
    }

    /// Removes a finalizer if it is there.
    pub fn remove_finalizer<K: Resource<DynamicType = ()>>(&mut self, observed: &K, finalizer: &str) -> &mut Self {
        let present = observed.meta().finalizers.as_deref().unwrap_or_default();
        if !present.iter().any(|name| name == finalizer) {
            return self;
        }
        let rest: Vec<&String> = present.iter().filter(|name| *name != finalizer).collect();
        self.patch(observed, json!({ "metadata": { "finalizers": rest } }))
    }

    /// Adds any step.
    pub fn step(&mut self, step: Step) -> &mut Self {
        self.steps.push(step);
        self
    }

    /// Tells the user, once the steps stated so far and the one stated next are done: what is said with a status is true
    /// when the status is written, whatever becomes of the steps after that.
    pub fn event(&mut self, event: Event) -> &mut Self {
        self.stated_after.push(self.steps.len());
        self.events.push(event);
        self
    }

    /// What can be told when the first `done` steps are done. The rest is stated again by the decision that does the rest.
    pub fn told(&self, done: usize) -> Vec<Event> {
        let holds = |stated_after: usize| done > stated_after || done == self.steps.len();
        let events = self.events.iter().zip(&self.stated_after);
        events.filter(|(_, after)| holds(**after)).map(|(event, _)| event.clone()).collect()
    }

    /// Asks to decide again at `at`; the earliest of several wins.
    pub fn look_again(&mut self, at: Timestamp) -> &mut Self {
        self.look_again = Some(self.look_again.map_or(at, |earlier| earlier.min(at)));
        self
    }

    /// States how the matter stands.
    pub fn outcome(&mut self, outcome: Outcome) -> &mut Self {
        self.outcome = outcome;
        self
    }
}

impl Event {
    /// Something went as it should.
    pub fn normal<K: Resource<DynamicType = ()>>(
        regarding: &K,
        reason: impl Into<String>,
        action: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            regarding: Target::of(regarding).reference(),
            warning: false,
            reason: reason.into(),
            action: action.into(),
            note: note.into(),
        }
    }

    /// Something needs attention.
    pub fn warning<K: Resource<DynamicType = ()>>(
        regarding: &K,
        reason: impl Into<String>,
        action: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self { warning: true, ..Self::normal(regarding, reason, action, note) }
    }
}

fn map_changes<'a>(
    current: Option<&BTreeMap<String, String>>,
    wanted: impl IntoIterator<Item = (&'a str, Option<String>)>,
) -> Map<String, Value> {
    wanted
        .into_iter()
        .filter(|(name, value)| current.and_then(|current| current.get(*name)) != value.as_ref())
        .map(|(name, value)| (name.to_owned(), value.map_or(Value::Null, Value::String)))
        .collect()
}

/// The merge patch that turns `current` into `wanted`; `None` when they are equal.
pub fn merge_difference(current: &Value, wanted: &Value) -> Option<Value> {
    if current == wanted {
        return None;
    }
    let (Value::Object(current), Value::Object(wanted)) = (current, wanted) else {
        return Some(wanted.clone());
    };
    let mut patch = Map::new();
    for (name, value) in wanted {
        match current.get(name) {
            Some(before) => {
                if let Some(difference) = merge_difference(before, value) {
                    patch.insert(name.clone(), difference);
                }
            }
            None if value.is_null() => {}
            None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    for name in current.keys().filter(|name| !wanted.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Pod, PodStatus};

    #[test]
    fn a_difference_sets_changes_and_removes() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
        let after = json!({"a": 1, "b": {"c": 4}, "e": [1, 2]});
        assert_eq!(merge_difference(&before, &after), Some(json!({"b": {"c": 4, "d": null}, "e": [1, 2]})));
        assert_eq!(merge_difference(&before, &before), None);
        assert_eq!(merge_difference(&json!({}), &json!({"a": null})), None);
    }

    #[test]
    fn an_equal_status_is_not_written() {
        let status = PodStatus { phase: Some("Running".into()), ..PodStatus::default() };
        let pod = Pod { status: Some(status.clone()), ..Pod::default() };
        let mut decision = Decision::none();
        decision.status(&pod, pod.status.as_ref(), &status);
        assert!(decision.steps.is_empty());
        decision.status(&pod, None, &status);
        assert_eq!(decision.steps.len(), 1);
    }

    #[test]
    fn finalizers_and_labels_are_patched_only_when_they_differ() {
        let mut pod = Pod::default();
        pod.metadata.finalizers = Some(vec!["a".into(), "b".into()]);
        let mut decision = Decision::none();
        decision.add_finalizer(&pod, "a").remove_finalizer(&pod, "c").label(&pod, [("x", None)]);
        assert!(decision.steps.is_empty());
        decision.remove_finalizer(&pod, "a");
        let Step::Patch(patch) = &decision.steps[0] else { panic!("a patch") };
        assert_eq!(patch.body, json!({"metadata": {"finalizers": ["b"]}}));
    }

    #[test]
    fn what_happened_is_told_although_a_later_step_did_not_happen() {
        let mut pod = Pod::default();
        pod.metadata.finalizers = Some(vec!["a".into()]);
        let mut decision = Decision::none();
        decision.event(Event::normal(&pod, "Ended", "End", "it ended"));
        decision.status(&pod, None, &PodStatus { phase: Some("Succeeded".into()), ..PodStatus::default() });
        decision.remove_finalizer(&pod, "a");
        decision.event(Event::normal(&pod, "Released", "Release", "it is free"));
        let told = |done| decision.told(done).into_iter().map(|event| event.reason).collect::<Vec<_>>();
        assert_eq!(told(0), [""; 0], "not even the status was written");
        assert_eq!(told(1), ["Ended"], "the status was written, the Pod has changed meanwhile");
        assert_eq!(told(2), ["Ended", "Released"]);
    }
}
