//! The codec of `fieldsV1`.

use machinery::apply::fields_v1::{decode, encode};
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case(json!({}))]
#[case(json!({"f:spec": {"f:replicas": {}}}))]
#[case(json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}))]
#[case(json!({"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}))]
#[case(json!({"f:finalizers": {"v:\"a\"": {}, "v:1": {}, "v:true": {}}, "f:list": {"i:0": {}}}))]
fn round_trips(#[case] fields: Value) {
    assert_eq!(encode(&decode(&fields).unwrap()), fields);
}

#[test]
fn unknown_kinds_of_elements_are_dropped() {
    assert_eq!(encode(&decode(&json!({"x:a": {"f:b": {}}, "f:c": {}})).unwrap()), json!({"f:c": {}}));
}

#[rstest]
#[case(json!([]))]
#[case(json!({"f:a": 1}))]
#[case(json!({"spec": {}}))]
#[case(json!({"k:[]": {}}))]
#[case(json!({"v:": {}}))]
#[case(json!({"i:x": {}}))]
fn nonsense_is_refused(#[case] fields: Value) {
    assert!(decode(&fields).is_err());
}

#[test]
fn paths_read_as_in_kubernetes() {
    let fields = json!({"f:spec": {
        "f:ports": {"k:{\"protocol\":\"TCP\",\"containerPort\":80}": {"f:name": {}}},
        "f:gates": {"v:\"x\"": {}}, "f:list": {"i:3": {}}, "f:replicas": {}}});
    let paths: Vec<String> = decode(&fields).unwrap().paths().iter().map(ToString::to_string).collect();
    let expected = [
        ".spec.replicas",
        ".spec.gates[=\"x\"]",
        ".spec.list[3]",
        ".spec.ports[containerPort=80,protocol=\"TCP\"].name",
    ];
    assert_eq!(paths, expected);
}
