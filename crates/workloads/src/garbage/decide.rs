//! The collector's rules. Pure.

use engine::{Decision, Deletion, Patch, Step};
use kube::api::PropagationPolicy;
use serde_json::json;

use super::graph::{Item, Owner};

/// Holds an object until its dependents were cut loose.
pub const ORPHAN: &str = "orphan";
/// Holds an object until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";

/// What became of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// It is there.
    Present,
    /// It is being deleted in the foreground: its dependents go first.
    WaitsForDependents,
    /// It does not exist, or another object has its name.
    Gone,
    /// Its kind is not served, so nobody can tell.
    Unknown,
}

pub fn decide(item: &Item, owners: &[OwnerState], dependents: &[Item]) -> Decision {
    let mut decision = Decision::none();
    if item.deleting {
        finish(&mut decision, item, dependents);
        return decision;
    }
    let solid = owners.contains(&OwnerState::Present);
    let lost = owners.iter().any(|state| matches!(state, OwnerState::Gone | OwnerState::WaitsForDependents));
    if !lost {
        return decision;
    }
    if solid {
        let kept = item.owners.iter().zip(owners).filter(|(_, state)| **state == OwnerState::Present);
        decision.step(set_owners(item, &kept.map(|(owner, _)| owner).collect::<Vec<_>>()));
        return decision;
    }
    let waited_for = owners.contains(&OwnerState::WaitsForDependents) && !dependents.is_empty();
    let has = |name: &str| item.finalizers.iter().any(|finalizer| finalizer == name);
    let propagation = if waited_for || has(FOREGROUND) {
        PropagationPolicy::Foreground
    } else if has(ORPHAN) {
        PropagationPolicy::Orphan
    } else {
        PropagationPolicy::Background
    };
    let target = item.target();
    decision.step(Step::Delete(Deletion { target, propagation: Some(propagation), grace_seconds: None }));
    decision
}

/// Lets go of an object that waits for us to deal with its dependents.
fn finish(decision: &mut Decision, item: &Item, dependents: &[Item]) {
    let has = |name: &str| item.finalizers.iter().any(|finalizer| finalizer == name);
    if has(ORPHAN) {
        for dependent in dependents {
            let others: Vec<&Owner> = dependent.owners.iter().filter(|owner| owner.uid != item.uid).collect();
            decision.step(set_owners(dependent, &others));
        }
        decision.step(drop_finalizer(item, ORPHAN));
    } else if has(FOREGROUND) && !dependents.iter().any(|dependent| dependent.blocks(&item.uid)) {
        decision.step(drop_finalizer(item, FOREGROUND));
    }
}

fn set_owners(item: &Item, owners: &[&Owner]) -> Step {
    let body = json!({ "metadata": { "ownerReferences": owners } });
    Step::Patch(Patch { target: item.target(), body, subresource: None })
}

fn drop_finalizer(item: &Item, dropped: &str) -> Step {
    let rest: Vec<&String> = item.finalizers.iter().filter(|name| *name != dropped).collect();
    let body = json!({ "metadata": { "finalizers": rest } });
    Step::Patch(Patch { target: item.target(), body, subresource: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Kind;
    use engine::Key;
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::ApiResource;
    use std::sync::Arc;

    fn item(uid: &str, owners: &[(&str, bool)]) -> Item {
        let owner = |(uid, blocks): &(&str, bool)| Owner {
            uid: (*uid).to_owned(),
            block_owner_deletion: Some(*blocks),
            ..Owner::default()
        };
        Item {
            kind: Arc::new(Kind { resource: ApiResource::erase::<Pod>(&()), namespaced: true }),
            key: Key::new("n", uid),
            uid: uid.to_owned(),
            resource_version: "1".into(),
            owners: owners.iter().map(owner).collect(),
            deleting: false,
            finalizers: Vec::new(),
        }
    }

    fn held(uid: &str, finalizer: &str) -> Item {
        Item { deleting: true, finalizers: vec!["mine".into(), finalizer.into()], ..item(uid, &[]) }
    }

    fn body(step: &Step) -> serde_json::Value {
        let Step::Patch(patch) = step else { panic!("a patch, not {step:?}") };
        patch.body.clone()
    }

    #[test]
    fn an_object_goes_only_when_all_its_owners_are_gone() {
        use OwnerState::{Gone, Present};
        let both = item("i", &[("a", false), ("b", false)]);
        assert!(decide(&both, &[Present, Present], &[]).steps.is_empty());
        let one_left = decide(&both, &[Gone, Present], &[]);
        assert_eq!(body(&one_left.steps[0])["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        let none_left = decide(&both, &[Gone, Gone], &[]);
        let Step::Delete(deletion) = &none_left.steps[0] else { panic!("a delete") };
        assert_eq!((deletion.target.uid.as_str(), deletion.target.resource_version.as_str()), ("i", "1"));
        assert!(matches!(deletion.propagation, Some(PropagationPolicy::Background)));
    }

    #[test]
    fn what_never_had_an_owner_is_nobodys_garbage() {
        assert!(decide(&item("i", &[]), &[], &[]).steps.is_empty());
    }

    #[test]
    fn foreground_goes_down_the_tree_and_waits_for_blockers_only() {
        let child = item("c", &[("o", true)]);
        let grandchild = item("g", &[("c", true)]);
        let down = decide(&child, &[OwnerState::WaitsForDependents], &[grandchild]);
        let Step::Delete(deletion) = &down.steps[0] else { panic!("a delete") };
        assert!(matches!(deletion.propagation, Some(PropagationPolicy::Foreground)));

        let owner = held("o", FOREGROUND);
        assert!(decide(&owner, &[], &[child]).steps.is_empty(), "blocked");
        let free = decide(&owner, &[], &[item("c", &[("o", false)])]);
        assert_eq!(body(&free.steps[0])["metadata"]["finalizers"], json!(["mine"]));
    }

    #[test]
    fn orphans_are_cut_loose_before_their_owner_goes() {
        let orphaned = decide(&held("o", ORPHAN), &[], &[item("c", &[("o", true), ("p", false)])]);
        assert_eq!(body(&orphaned.steps[0])["metadata"]["ownerReferences"][0]["uid"], "p");
        assert_eq!(body(&orphaned.steps[1])["metadata"]["finalizers"], json!(["mine"]));
    }
}
