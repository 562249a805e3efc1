//! Conflicts, force, sharing and the transfer of ownership.

use serde_json::json;

use super::Plane;
use crate::shape::deployment;

#[test]
fn changing_what_another_owns_is_a_conflict_that_names_both() {
    let mut plane = Plane::new(deployment());
    plane.update("kubectl-client-side-apply", json!({"spec": {"replicas": 1}}));
    let status = plane.try_apply("me", json!({"spec": {"replicas": 2}}), false).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    let body = status.to_value();
    assert_eq!((status.code, status.reason), (409, "Conflict"));
    assert_eq!(
        body["details"],
        json!({"causes": [{"reason": "FieldManagerConflict", "field": ".spec.replicas",
            "message": "conflict with \"kubectl-client-side-apply\" using apps/v1"}]})
    );
    assert_eq!(plane.object()["spec"]["replicas"], 1);
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"metadata": {"labels": {"x": "1", "y": "1"}}}));
    plane.apply("b", json!({"spec": {"replicas": 1}}));
    let config = json!({"metadata": {"labels": {"x": "2", "y": "2"}}, "spec": {"replicas": 2}});
    let status = plane.try_apply("c", config, false).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .metadata.labels.x\n- .metadata.labels.y\n\
         conflicts with \"b\":\n- .spec.replicas"
    );
}

#[test]
fn subresources_are_named() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"replicas": 1}}));
    let mut scaled = plane.live().clone();
    scaled["spec"]["replicas"] = json!(5);
    let kind = machinery::apply::Kind { ignored: &[], ..plane.kind("scale") };
    let writer = machinery::apply::Writer { manager: "autoscaler", now: super::NOW };
    plane.live = Some(machinery::apply::update(&kind, plane.live.as_ref(), scaled, writer));
    let status = plane.try_apply("a", json!({"spec": {"replicas": 2}}), false).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"autoscaler\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn force_takes_the_field_and_leaves_the_rest() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"replicas": 1, "paused": true}}));
    plane.try_apply("b", json!({"spec": {"replicas": 2}}), true).unwrap();
    assert_eq!(plane.object()["spec"], json!({"replicas": 2, "paused": true}));
    assert_eq!(plane.owned("a"), json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(plane.owned("b"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn forcing_the_last_field_away_removes_the_manager() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"replicas": 1}}));
    plane.try_apply("b", json!({"spec": {"replicas": 2}}), true).unwrap();
    assert_eq!(plane.entries().len(), 1);
}

#[test]
fn the_same_value_is_shared_and_goes_with_its_last_owner() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"replicas": 1, "paused": true}}));
    plane.apply("b", json!({"spec": {"replicas": 1}}));
    plane.apply("a", json!({"spec": {"paused": true}}));
    assert_eq!(plane.object()["spec"], json!({"replicas": 1, "paused": true}));
    plane.apply("b", json!({}));
    assert_eq!(plane.object()["spec"], json!({"paused": true}));
    assert_eq!(plane.entries().len(), 1);
}

#[test]
fn an_update_takes_the_field_and_the_applier_then_conflicts() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"replicas": 1, "paused": true}}));
    let mut edited = plane.live().clone();
    edited["spec"]["replicas"] = json!(3);
    plane.update("editor", edited);
    assert_eq!(plane.owned("a"), json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(plane.owned("editor"), json!({"f:spec": {"f:replicas": {}}}));
    let status = plane.try_apply("a", json!({"spec": {"replicas": 1, "paused": true}}), false).unwrap_err();
    assert!(status.message.contains("conflict with \"editor\" using apps/v1: .spec.replicas"), "{status}");
    // Applying the live value is no conflict: the field is shared then.
    plane.apply("a", json!({"spec": {"replicas": 3, "paused": true}}));
    assert_eq!(plane.owned("a"), json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}));
    assert_eq!(plane.owned("editor"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn giving_up_a_field_that_an_updater_owns_too_keeps_it() {
    let mut plane = Plane::new(deployment());
    plane.update("editor", json!({"spec": {"replicas": 1, "paused": true}}));
    plane.apply("a", json!({"spec": {"replicas": 1}}));
    plane.apply("a", json!({}));
    assert_eq!(plane.object()["spec"], json!({"replicas": 1, "paused": true}));
}

#[test]
fn fields_that_an_updater_removes_are_owned_by_nobody() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"metadata": {"labels": {"x": "1", "y": "1"}}}));
    let mut edited = plane.live().clone();
    edited["metadata"]["labels"].as_object_mut().unwrap().remove("x");
    plane.update("editor", edited);
    assert_eq!(plane.owned("a"), json!({"f:metadata": {"f:labels": {"f:y": {}}}}));
    assert_eq!(plane.entries().len(), 1);
}
