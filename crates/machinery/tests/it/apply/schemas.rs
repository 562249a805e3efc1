//! Where the schema is silent, and where it changed.

use machinery::apply::{Kind, Writer, apply};
use machinery::schema::{Schema, Type};
use serde_json::json;

use super::{NOW, Plane};
use crate::shape::{atomic_map, integer, map_of, object, scalar, set, string};

#[test]
fn unknown_objects_merge_and_unknown_lists_are_atomic() {
    let mut plane = Plane::new(Schema { preserve_unknown_fields: true, ..object([]) });
    plane.apply("a", json!({"spec": {"x": {"y": 1, "l": [{"name": "a"}]}}}));
    plane.apply("b", json!({"spec": {"x": {"z": 2}}}));
    assert_eq!(plane.object()["spec"], json!({"x": {"y": 1, "z": 2, "l": [{"name": "a"}]}}));
    assert_eq!(plane.owned("a"), json!({"f:spec": {".": {}, "f:x": {".": {}, "f:y": {}, "f:l": {}}}}));
    let status = plane.try_apply("b", json!({"spec": {"x": {"z": 2, "l": []}}}), false).unwrap_err();
    assert!(status.message.ends_with(".spec.x.l"), "{status}");
}

#[test]
fn custom_resources_have_the_metadata_of_every_object() {
    let mut plane = Plane::new(object([("metadata", object([])), ("spec", object([("size", integer())]))]));
    plane.apply("a", json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x"]}, "spec": {"size": 1}}));
    plane.apply("b", json!({"metadata": {"labels": {"b": "1"}, "finalizers": ["y"]}}));
    assert_eq!(plane.owned("b"), json!({"f:metadata": {"f:labels": {"f:b": {}}, "f:finalizers": {"v:\"y\"": {}}}}));
    let status = plane.try_apply("b", json!({"spec": {"sice": 1}}), false).unwrap_err();
    assert!(status.message.ends_with(".spec.sice: field not declared in schema"), "{status}");
}

#[test]
fn owner_references_are_replaced_whole_one_by_one() {
    let mut plane = Plane::new(object([("spec", object([]))]));
    let owner = |uid: &str, name: &str| json!({"uid": uid, "name": name, "kind": "X"});
    plane.apply("a", json!({"metadata": {"ownerReferences": [owner("1", "one")]}}));
    plane.apply("b", json!({"metadata": {"ownerReferences": [owner("2", "two")]}}));
    assert_eq!(plane.object()["metadata"]["ownerReferences"], json!([owner("1", "one"), owner("2", "two")]));
    assert_eq!(plane.owned("b"), json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"2\"}": {}}}}));
}

#[test]
fn what_has_become_atomic_is_owned_whole() {
    let granular = object([("spec", object([("map", map_of(string())), ("set", set(string()))]))]);
    let atomic =
        object([("spec", object([("map", atomic_map(map_of(string()))), ("set", crate::shape::list(string()))]))]);
    let mut plane = Plane::new(granular);
    plane.apply("a", json!({"spec": {"map": {"x": "1"}, "set": ["p"]}}));
    plane.schema = atomic;
    let edited = plane.live().clone();
    plane.update("b", edited);
    assert_eq!(plane.owned("a"), json!({"f:spec": {"f:map": {}, "f:set": {}}}));
}

#[test]
fn a_field_can_change_its_type_where_any_is_allowed() {
    let mut plane = Plane::new(object([("spec", object([("free", scalar(Type::Any))]))]));
    plane.apply("a", json!({"spec": {"free": {"x": 1}}}));
    plane.apply("a", json!({"spec": {"free": [1, 2]}}));
    assert_eq!(plane.object()["spec"]["free"], json!([1, 2]));
    plane.apply("a", json!({"spec": {"free": "text"}}));
    plane.apply("a", json!({"spec": {"free": {"y": 1}}}));
    assert_eq!(plane.object()["spec"]["free"], json!({"y": 1}));
}

#[test]
fn managers_of_other_versions_count_and_those_of_dropped_versions_go() {
    let old = object([("spec", object([("size", integer())]))]);
    let new = object([("spec", object([("size", integer()), ("shape", string())]))]);
    let kind = |version, schema, others| Kind {
        schema,
        api_version: version,
        kind: "Thing",
        other_versions: others,
        subresource: "",
        ignored: &[],
    };
    let config = |version: &str, size: i64| json!({"apiVersion": version, "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": size}});
    let writer = |manager| Writer { manager, now: NOW };
    let live = apply(&kind("x.io/v1", &old, &[]), None, &config("x.io/v1", 1), writer("a"), false).unwrap();
    let others = [("x.io/v1", &old)];
    let served = kind("x.io/v2", &new, &others);
    let status = apply(&served, Some(&live), &config("x.io/v2", 2), writer("b"), false).unwrap_err();
    assert!(status.message.ends_with("conflict with \"a\": .spec.size"), "{status}");
    let dropped = kind("x.io/v2", &new, &[]);
    let live = apply(&dropped, Some(&live), &config("x.io/v2", 2), writer("b"), false).unwrap();
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 1);
}
