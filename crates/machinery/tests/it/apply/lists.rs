//! How lists and maps of each type merge and are owned.

use rstest::rstest;
use serde_json::{Value, json};

use super::Plane;
use crate::shape::deployment;

#[test]
fn keyed_lists_are_owned_item_by_item() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}}}));
    plane.apply("b", json!({"spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "p:1"}]}}}}));
    let containers = &plane.object()["spec"]["template"]["spec"]["containers"];
    assert_eq!(*containers, json!([{"name": "app", "image": "app:1"}, {"name": "proxy", "image": "p:1"}]));
    assert_eq!(
        plane.owned("b"),
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"proxy\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}})
    );
    plane.apply("a", json!({}));
    let containers = &plane.object()["spec"]["template"]["spec"]["containers"];
    assert_eq!(*containers, json!([{"name": "proxy", "image": "p:1"}]));
}

#[test]
fn keys_with_defaults_identify_items_that_leave_them_out() {
    let mut plane = Plane::new(deployment());
    let ports =
        |ports: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "ports": ports}]}}}});
    plane.apply("a", ports(json!([{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}])));
    assert_eq!(
        plane.owned("a")["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"app\"}"]["f:ports"],
        json!({"k:{\"containerPort\":53,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
               "k:{\"containerPort\":53,\"protocol\":\"UDP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}})
    );
    plane.apply("b", ports(json!([{"containerPort": 53, "protocol": "TCP", "name": "dns"}])));
    let ports = &plane.object()["spec"]["template"]["spec"]["containers"][0]["ports"];
    assert_eq!(
        *ports,
        json!([{"containerPort": 53, "protocol": "TCP", "name": "dns"}, {"containerPort": 53, "protocol": "UDP"}])
    );
}

#[test]
fn sets_are_owned_member_by_member() {
    let mut plane = Plane::new(deployment());
    plane.apply("a", json!({"metadata": {"finalizers": ["x", "y"]}}));
    plane.apply("b", json!({"metadata": {"finalizers": ["z", "y"]}}));
    assert_eq!(plane.object()["metadata"]["finalizers"], json!(["x", "z", "y"]));
    plane.apply("a", json!({}));
    assert_eq!(plane.object()["metadata"]["finalizers"], json!(["z", "y"]));
    plane.apply("b", json!({}));
    assert_eq!(plane.object()["metadata"].get("finalizers"), None);
}

#[test]
fn atomic_lists_and_maps_are_owned_whole() {
    let mut plane = Plane::new(deployment());
    let pod = |args: Value, selector: Value| json!({"spec": {"template": {"spec": {"nodeSelector": selector, "containers": [{"name": "a", "args": args}]}}}});
    plane.apply("a", pod(json!(["x", "y"]), json!({"zone": "1", "disk": "ssd"})));
    let owned = plane.owned("a");
    let spec = &owned["f:spec"]["f:template"]["f:spec"];
    assert_eq!(spec["f:nodeSelector"], json!({}));
    assert_eq!(spec["f:containers"]["k:{\"name\":\"a\"}"]["f:args"], json!({}));
    plane.apply("a", pod(json!(["z"]), json!({"zone": "2"})));
    let spec = plane.object()["spec"]["template"]["spec"].clone();
    assert_eq!(spec, json!({"nodeSelector": {"zone": "2"}, "containers": [{"name": "a", "args": ["z"]}]}));
}

#[rstest]
#[case::appended(&["a", "b"], &["c"], &["a", "b", "c"])]
#[case::applied_order_wins(&["a", "b", "c"], &["c", "a"], &["b", "c", "a"])]
#[case::interleaved(&["a", "x", "b"], &["a", "n", "b"], &["a", "x", "n", "b"])]
#[case::all_new(&[], &["b", "a"], &["b", "a"])]
#[case::reversed(&["a", "b", "c"], &["c", "b", "a"], &["c", "b", "a"])]
fn order_of_merged_lists(#[case] live: &[&str], #[case] applied: &[&str], #[case] expected: &[&str]) {
    let mut plane = Plane::new(deployment());
    plane.update("other", json!({"spec": {"gates": live}}));
    plane.apply("me", json!({"spec": {"gates": applied}}));
    assert_eq!(plane.object()["spec"]["gates"], json!(expected));
}

#[rstest]
#[case::twins(json!({"metadata": {"finalizers": ["a", "a"]}}), ".metadata.finalizers: duplicate entries for key [=\"a\"]")]
#[case::no_key(json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}), "omits all key fields")]
#[case::no_object(json!({"spec": {"template": {"spec": {"containers": ["x"]}}}}), "non-map elements")]
#[case::unknown_field(json!({"spec": {"replica": 1}}), ".spec.replica: field not declared in schema")]
#[case::wrong_scalar(json!({"spec": {"replicas": "one"}}), ".spec.replicas: expected numeric (int or float), got string")]
#[case::wrong_map(json!({"spec": {"selector": []}}), ".spec.selector: expected map")]
#[case::wrong_list(json!({"spec": {"gates": {}}}), ".spec.gates: expected list")]
fn configurations_that_cannot_be_merged_are_refused(#[case] config: Value, #[case] words: &str) {
    let mut plane = Plane::new(deployment());
    let status = plane.try_apply("me", config, false).unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.contains(words), "{status}");
    assert!(
        status.message.starts_with("failed to create typed patch object (/web; apps/v1, Kind=Deployment): "),
        "{status}"
    );
}

#[test]
fn twins_in_a_live_list_do_no_harm() {
    let mut plane = Plane::new(deployment());
    plane.update("other", json!({"spec": {"gates": ["a", "a", "b"]}}));
    plane.apply("me", json!({"spec": {"gates": ["b", "c"]}}));
    assert_eq!(plane.object()["spec"]["gates"], json!(["a", "a", "b", "c"]));
}
