use machinery::patch::merge::apply;
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case::sets(json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2}))]
#[case::deletes(json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2}))]
#[case::deletes_absent(json!({}), json!({"a": null}), json!({}))]
#[case::merges_deep(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null, "d": 3}}), json!({"a": {"c": 2, "d": 3}}))]
#[case::replaces_lists(json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]}))]
#[case::object_over_scalar(json!({"a": 1}), json!({"a": {"b": 2, "c": null}}), json!({"a": {"b": 2}}))]
#[case::scalar_over_object(json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": 2}))]
#[case::nulls_of_new_objects_in_lists(json!({}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]}))]
#[case::object_over_null(json!({"a": null}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}))]
fn applies(#[case] original: Value, #[case] patch: Value, #[case] expected: Value) {
    assert_eq!(apply(&original, &patch).unwrap(), expected);
}

#[rstest]
#[case(json!([1]))]
#[case(json!("text"))]
#[case(json!(null))]
fn only_objects_are_patches(#[case] patch: Value) {
    assert_eq!(apply(&json!({}), &patch).unwrap_err().code, 400);
}
