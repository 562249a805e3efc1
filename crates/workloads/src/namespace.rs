//! A namespace that is deleted is emptied first, kind by kind, and then let go.

use std::sync::Arc;
use std::time::Duration;

use engine::{Call, Controller, Decision, Deletion, Error, Key, Outcome, Step, Target, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::inventory::Inventory;

/// What holds a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
/// How soon to look again at what is left, should no Pod's end tell us before.
const AGAIN: Duration = Duration::from_secs(1);

/// The controller.
pub struct Namespaces {
    /// The kinds to look for.
    pub inventory: Arc<Inventory>,
}

/// A namespace that goes, and what is left in it.
pub struct Observed {
    namespace: Arc<Namespace>,
    content: Vec<Left>,
}

/// An object that is still there.
struct Left {
    target: Target,
    deleting: bool,
    finalizers: Vec<String>,
}

impl Controller for Namespaces {
    const NAME: &'static str = "namespace-controller";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<Namespace>().changes::<Pod>(|change, view| {
            let gone = change.before.iter().filter(|_| change.after.is_none());
            let names = gone.filter_map(|pod| pod.metadata.namespace.clone());
            let keys = names.map(|name| Key::new("", name));
            keys.filter(|key| view.cached::<Namespace>(key).is_some_and(|namespace| is_going(&namespace))).collect()
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(namespace) = view.cached::<Namespace>(key).filter(|namespace| is_going(namespace)) else {
            return Ok(None);
        };
        // Kinds may have come since the last look, and their objects with them.
        self.inventory.refresh().await?;
        let mut content = Vec::new();
        for kind in self.inventory.all().iter().filter(|kind| kind.namespaced) {
            for object in self.inventory.list(kind, &key.name).await? {
                content.push(Left {
                    target: Target {
                        resource: kind.resource.clone(),
                        key: Key::of(&object),
                        uid: object.uid().unwrap_or_default(),
                        resource_version: object.resource_version().unwrap_or_default(),
                    },
                    deleting: object.metadata.deletion_timestamp.is_some(),
                    finalizers: object.finalizers().to_vec(),
                });
            }
        }
        Ok(Some(Observed { namespace, content }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        let Observed { namespace, content } = observed;
        let mut decision = Decision::none();
        if content.is_empty() {
            finalize(&mut decision, namespace);
            return decision;
        }
        report(&mut decision, namespace, content, now);
        for left in content.iter().filter(|left| !left.deleting) {
            let propagation = Some(PropagationPolicy::Background);
            decision.step(Step::Delete(Deletion { target: left.target.clone(), propagation, grace_seconds: None }));
        }
        decision.look_again(now + AGAIN);
        decision.outcome(Outcome::Waiting(format!("{} objects are left", content.len())));
        decision
    }
}

fn is_going(namespace: &Namespace) -> bool {
    let held = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    namespace.metadata.deletion_timestamp.is_some()
        && held.is_some_and(|held| held.iter().any(|finalizer| finalizer == FINALIZER))
}

fn finalize(decision: &mut Decision, namespace: &Namespace) {
    let held = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
    let rest: Vec<String> = held.into_iter().filter(|finalizer| finalizer != FINALIZER).collect();
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "spec": { "finalizers": rest } });
    let target = Target::of(namespace);
    decision.step(Step::Call(Call { target, subresource: "finalize", replace: true, body }));
}

/// Says what is left and what holds it, in the words of Kubernetes.
fn report(decision: &mut Decision, namespace: &Namespace, content: &[Left], now: Timestamp) {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    let mut finalizers = std::collections::BTreeMap::<String, usize>::new();
    for left in content {
        let resource = &left.target.resource;
        *kinds.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
        for finalizer in &left.finalizers {
            *finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    let remaining: Vec<String> =
        kinds.iter().map(|(kind, count)| format!("{kind} has {count} resource instances")).collect();
    let held: Vec<String> =
        finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
    let current = namespace.status.as_ref();
    let before = current.and_then(|status| status.conditions.clone()).unwrap_or_default();
    let condition = |type_: &str, found: bool, reason: &str, message: String| {
        let status = if found { "True" } else { "False" };
        let same = before.iter().find(|condition| condition.type_ == type_ && condition.status == status);
        NamespaceCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: same.and_then(|condition| condition.last_transition_time.clone()).or(Some(Time(now))),
        }
    };
    let content = condition(
        "NamespaceContentRemaining",
        true,
        "SomeResourcesRemain",
        format!("Some resources are remaining: {}", remaining.join(", ")),
    );
    let finalizers = if held.is_empty() {
        let message = "All content-preserving finalizers finished".to_owned();
        condition("NamespaceFinalizersRemaining", false, "ContentHasNoFinalizers", message)
    } else {
        let message = format!("Some content in the namespace has finalizers remaining: {}", held.join(", "));
        condition("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
    };
    let fine = |type_: &str, reason: &str, message: &str| condition(type_, false, reason, message.to_owned());
    let conditions = vec![
        fine("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        fine(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        fine(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        content,
        finalizers,
    ];
    let status = NamespaceStatus { phase: Some("Terminating".into()), conditions: Some(conditions) };
    decision.status(namespace, current, &status);
}
