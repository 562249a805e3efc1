use super::*;
use engine::Step;
use serde_json::{Value, json};

fn set(spec: &Value, status: &Value) -> Arc<ReplicaSet> {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": "shop"}});
    spec["template"] =
        json!({"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let metadata = json!({"name": "web", "namespace": "n", "uid": "set", "generation": 2, "resourceVersion": "7"});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).expect("a set"))
}

fn pod(name: &str, status: &Value) -> Arc<Pod> {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true});
    let metadata = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": "3", "labels": {"app": "shop"},
        "ownerReferences": [owner]});
    let spec = json!({"containers": [], "nodeName": "here"});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).expect("a Pod"))
}

fn ready(since: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

fn decide(set: &Arc<ReplicaSet>, pods: Vec<Arc<Pod>>) -> Decision {
    let pods = Claim::new(&**set, selects(set), pods);
    ReplicaSets.decide(&Observed { set: Arc::clone(set), pods }, at("2026-01-01T00:00:10Z"))
}

fn created(decision: &Decision) -> Vec<String> {
    let names = decision.steps.iter().filter_map(|step| match step {
        Step::Create(object) => Some(object.key().name),
        _ => None,
    });
    names.collect()
}

fn deleted(decision: &Decision) -> Vec<String> {
    let names = decision.steps.iter().filter_map(|step| match step {
        Step::Delete(deletion) => Some(deletion.target.key.name.clone()),
        _ => None,
    });
    names.collect()
}

#[test]
fn the_missing_pods_have_the_same_names_whoever_makes_them() {
    let set = set(&json!({"replicas": 3}), &json!({"replicas": 0}));
    let first = created(&decide(&set, vec![]));
    assert_eq!(first.len(), 3);
    assert_eq!(first, created(&decide(&set, vec![])));
    let one_there = decide(&set, vec![pod(&first[1], &json!({"phase": "Pending"}))]);
    assert_eq!(created(&one_there), [first[0].clone(), first[2].clone()]);
}

#[test]
fn a_pod_that_ends_is_replaced_under_another_name() {
    let set = set(&json!({"replicas": 1}), &json!({"replicas": 1}));
    let first = created(&decide(&set, vec![])).remove(0);
    let replaced = created(&decide(&set, vec![pod(&first, &json!({"phase": "Failed"}))]));
    assert_eq!(replaced.len(), 1);
    assert_ne!(replaced[0], first);
}

#[test]
fn a_name_is_not_used_again() {
    let mut set = set(&json!({"replicas": 1}), &json!({"replicas": 1}));
    let first = created(&decide(&set, vec![]));
    Arc::make_mut(&mut set).metadata.resource_version = Some("8".into());
    assert_ne!(
        created(&decide(&set, vec![])),
        first,
        "its Pod was there and is gone: the status has moved the version"
    );
}

#[test]
fn the_least_useful_pods_go_first() {
    let set = set(&json!({"replicas": 1}), &json!({"replicas": 4}));
    let pods = vec![
        pod("old", &ready("2026-01-01T00:00:00Z")),
        pod("pending", &json!({"phase": "Pending"})),
        pod("young", &ready("2026-01-01T00:00:05Z")),
        pod("unready", &json!({"phase": "Running"})),
    ];
    assert_eq!(deleted(&decide(&set, pods)), ["pending", "unready", "young"]);
}

#[test]
fn available_means_ready_for_long_enough() {
    let set = set(&json!({"replicas": 2, "minReadySeconds": 8}), &json!({"replicas": 0}));
    let decision =
        decide(&set, vec![pod("a", &ready("2026-01-01T00:00:00Z")), pod("b", &ready("2026-01-01T00:00:05Z"))]);
    let Step::Patch(patch) = &decision.steps[0] else { panic!("a status") };
    assert_eq!(
        patch.body["status"],
        json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1,
            "terminatingReplicas": 0, "observedGeneration": 2})
    );
    assert_eq!(decision.look_again, Some(at("2026-01-01T00:00:13Z")));
}

#[test]
fn strays_are_adopted_and_strangers_left_alone() {
    let set = set(&json!({"replicas": 1}), &json!({"replicas": 1}));
    let mut stray = (*pod("stray", &ready("2026-01-01T00:00:00Z"))).clone();
    stray.metadata.owner_references = None;
    let mut foreign = (*pod("foreign", &ready("2026-01-01T00:00:00Z"))).clone();
    foreign.metadata.owner_references.as_mut().expect("one")[0].uid = "other".into();
    let decision = decide(&set, vec![Arc::new(stray), Arc::new(foreign)]);
    let Step::Patch(patch) = &decision.steps[0] else { panic!("a patch") };
    assert_eq!((patch.target.key.name.as_str(), decision.steps.len()), ("stray", 1));
    assert_eq!(patch.body["metadata"]["ownerReferences"][0]["uid"], "set");
}

#[test]
fn a_pod_that_lost_the_label_is_let_go_and_replaced_later() {
    let set = set(&json!({"replicas": 1}), &json!({"replicas": 1}));
    let mut changed = (*pod("a", &ready("2026-01-01T00:00:00Z"))).clone();
    changed.metadata.labels = None;
    let decision = decide(&set, vec![Arc::new(changed)]);
    let Step::Patch(patch) = &decision.steps[0] else { panic!("a patch") };
    assert_eq!(patch.body["metadata"]["ownerReferences"], json!([]));
}
