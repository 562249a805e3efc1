//! The entries of `managedFields`.

use machinery::apply::keep_times;
use serde_json::{Value, json};

use super::{LATER, NOW, Plane};
use crate::shape::deployment;

#[test]
fn an_entry_has_all_its_parts_and_no_system_fields() {
    let mut plane = Plane::new(deployment());
    plane.apply("me", json!({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1}}));
    assert_eq!(
        plane.entries(),
        [json!({"manager": "me", "operation": "Apply", "apiVersion": "apps/v1", "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:replicas": {}}}})]
    );
}

#[test]
fn a_created_object_belongs_to_its_creator() {
    let mut plane = Plane::new(deployment());
    plane.update(
        "creator",
        json!({"metadata": {"labels": {"a": "1"}, "uid": "u", "generation": 1}, "spec": {"replicas": 1}}),
    );
    assert_eq!(
        plane.owned("creator"),
        json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {".": {}, "f:replicas": {}}})
    );
}

#[test]
fn applying_the_same_again_changes_nothing_at_all() {
    let mut plane = Plane::new(deployment());
    let config = json!({"spec": {"replicas": 1, "gates": ["a"]}});
    let first = plane.apply("me", config.clone()).clone();
    plane.now = LATER;
    assert_eq!(*plane.apply("me", config), first);
}

#[test]
fn the_time_moves_with_the_object() {
    let mut plane = Plane::new(deployment());
    plane.apply("me", json!({"spec": {"replicas": 1}}));
    plane.now = LATER;
    plane.apply("me", json!({"spec": {"replicas": 2}}));
    assert_eq!(plane.entries()[0]["time"], LATER);
}

#[test]
fn an_update_that_changes_nothing_leaves_the_managers_alone() {
    let mut plane = Plane::new(deployment());
    plane.update("a", json!({"spec": {"replicas": 1}}));
    plane.now = LATER;
    let again = plane.live().clone();
    let before = again.clone();
    assert_eq!(*plane.update("b", again), before);
}

#[test]
fn entries_are_sorted_by_operation_time_and_name() {
    let mut plane = Plane::new(deployment());
    plane.update("z-first", json!({"spec": {"replicas": 1}}));
    plane.now = LATER;
    for manager in ["b", "a"] {
        let mut edited = plane.live().clone();
        edited["metadata"]["labels"][manager] = json!("1");
        plane.update(manager, edited);
    }
    plane.apply("applier", json!({"spec": {"paused": true}}));
    let names: Vec<&Value> = plane.entries().iter().map(|entry| &entry["manager"]).collect();
    assert_eq!(names, ["applier", "z-first", "a", "b"]);
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let mut plane = Plane::new(deployment());
    plane.live = Some(json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "uid": "u"}, "spec": {"replicas": 1, "paused": true}}));
    let status = plane.try_apply("me", json!({"spec": {"replicas": 2}}), false).unwrap_err();
    assert!(status.message.contains("conflict with \"before-first-apply\" using apps/v1: .spec.replicas"), "{status}");
    plane.try_apply("me", json!({"spec": {"replicas": 2}}), true).unwrap();
    assert_eq!(plane.owned("before-first-apply"), json!({"f:spec": {".": {}, "f:paused": {}}}));
}

#[test]
fn an_unmanaged_object_stays_so_under_updates() {
    let mut plane = Plane::new(deployment());
    plane.update("a", json!({"spec": {"replicas": 1}}));
    for reset in [json!([]), json!([{}])] {
        let mut edited = plane.live().clone();
        edited["metadata"]["managedFields"] = reset;
        edited["spec"]["paused"] = json!(true);
        plane.update("b", edited);
        assert_eq!(plane.entries().len(), 0);
    }
}

#[test]
fn a_client_that_drops_the_managers_does_not_lose_them() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"replicas": 1}}));
    let mut edited = plane.object();
    edited["spec"]["paused"] = json!(true);
    plane.update("b", edited);
    assert_eq!(plane.owned("a"), json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(plane.owned("b"), json!({"f:spec": {"f:paused": {}}}));
}

#[test]
fn managers_can_be_edited_by_hand_and_nonsense_is_ignored() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"replicas": 1}}));
    let mut edited = plane.live().clone();
    edited["metadata"]["managedFields"][0]["manager"] = json!("renamed");
    plane.update("editor", edited);
    assert_eq!(plane.owned("renamed"), json!({"f:spec": {"f:replicas": {}}}));
    let mut edited = plane.live().clone();
    edited["metadata"]["managedFields"][0]["fieldsV1"] = json!({"nonsense": {}});
    plane.update("editor", edited);
    assert_eq!(plane.owned("renamed"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn at_most_ten_updaters_are_kept() {
    let mut plane = Plane::new(deployment());
    for number in 0..14 {
        let mut object = plane.live.clone().unwrap_or_else(|| json!({"metadata": {}}));
        object["metadata"]["labels"][format!("l{number:02}")] = json!("x");
        plane.update(&format!("m{number:02}"), object);
    }
    let names: Vec<&str> = plane.entries().iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    assert_eq!(names, ["ancient-changes", "m05", "m06", "m07", "m08", "m09", "m10", "m11", "m12", "m13"]);
    let ancient = plane.owned("ancient-changes");
    assert_eq!(ancient["f:metadata"]["f:labels"].as_object().unwrap().len(), 6, "{ancient}");
}

#[test]
fn status_is_owned_through_its_subresource_only() {
    let mut plane = Plane::new(deployment());
    plane.apply("me", json!({"spec": {"replicas": 1}, "status": {"replicas": 9}}));
    assert_eq!(plane.owned("me"), json!({"f:spec": {"f:replicas": {}}}));
    let mut object = plane.live().clone();
    object["status"] = json!({"replicas": 1});
    object["spec"]["replicas"] = json!(7);
    plane.update_at("status", "controller", object);
    let entry = plane.entries().iter().find(|entry| entry["manager"] == "controller").unwrap();
    assert_eq!(entry["subresource"], "status");
    assert_eq!(entry["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
    assert_eq!(plane.owned("me"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn a_configuration_may_not_bring_managers_or_another_type() {
    let mut plane = Plane::new(deployment());
    let status = plane.try_apply("me", json!({"metadata": {"managedFields": []}}), false).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (400, "metadata.managedFields must be nil"));
    let writer = machinery::apply::Writer { manager: "me", now: NOW };
    let config = json!({"apiVersion": "v1", "kind": "Pod"});
    let status = machinery::apply::apply(&plane.kind(""), None, &config, writer, false).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (400, "invalid object type: /v1, Kind=Pod"));
}

#[test]
fn a_change_of_times_alone_is_undone() {
    let mut plane = Plane::new(deployment());
    let live = plane.apply("me", json!({"spec": {"replicas": 1}})).clone();
    let mut again = live.clone();
    again["metadata"]["managedFields"][0]["time"] = json!(LATER);
    let mut changed = again.clone();
    keep_times(&live, &mut again);
    assert_eq!(again, live);
    changed["spec"]["replicas"] = json!(2);
    let before = changed.clone();
    keep_times(&live, &mut changed);
    assert_eq!(changed, before);
}

/// From client-side to server-side apply: what the annotation shows to be ours is no conflict.
#[test]
fn kubectl_may_take_over_from_client_side_apply() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let last =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}});
    let mut plane = Plane::new(deployment());
    plane.update(
        "kubectl-client-side-apply",
        json!({"metadata": {"annotations": {annotation: last.to_string()}}, "spec": {"replicas": 1}}),
    );
    let config = json!({"spec": {"replicas": 2}});
    assert!(plane.try_apply("someone", config.clone(), false).is_err());
    plane.apply("kubectl", config);
    assert_eq!(plane.object()["spec"]["replicas"], 2);
    let kept: Value =
        serde_json::from_str(plane.object()["metadata"]["annotations"][annotation].as_str().unwrap()).unwrap();
    assert_eq!(kept["spec"]["replicas"], 2);
    // A field that changed since is somebody else's.
    let mut edited = plane.live().clone();
    edited["spec"]["replicas"] = json!(7);
    plane.update("editor", edited);
    assert!(plane.try_apply("kubectl", json!({"spec": {"replicas": 3}}), false).is_err());
}
