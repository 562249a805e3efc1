use machinery::patch::json::{MAX_OPERATIONS, apply};
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case::add_member(json!({}), json!([{"op": "add", "path": "/a", "value": 1}]), json!({"a": 1}))]
#[case::add_replaces(json!({"a": 1}), json!([{"op": "add", "path": "/a", "value": 2}]), json!({"a": 2}))]
#[case::append(json!({"l": [1]}), json!([{"op": "add", "path": "/l/-", "value": 2}]), json!({"l": [1, 2]}))]
#[case::insert(json!({"l": [1, 3]}), json!([{"op": "add", "path": "/l/1", "value": 2}]), json!({"l": [1, 2, 3]}))]
#[case::insert_from_end(json!({"l": [1, 3]}), json!([{"op": "add", "path": "/l/-2", "value": 2}]), json!({"l": [1, 2, 3]}))]
#[case::remove(json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2}))]
#[case::remove_last(json!({"l": [1, 2]}), json!([{"op": "remove", "path": "/l/-1"}]), json!({"l": [1]}))]
#[case::replace(json!({"a": {"b": 1}}), json!([{"op": "replace", "path": "/a/b", "value": 2}]), json!({"a": {"b": 2}}))]
#[case::replace_absent_adds(json!({"a": {}}), json!([{"op": "replace", "path": "/a/b", "value": 2}]), json!({"a": {"b": 2}}))]
#[case::replace_all(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 2}}]), json!({"b": 2}))]
#[case::escapes(json!({"a/b": {"~": 1}}), json!([{"op": "replace", "path": "/a~1b/~0", "value": 2}]), json!({"a/b": {"~": 2}}))]
#[case::move_(json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1}))]
#[case::copy(json!({"a": [1]}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": [1], "b": [1]}))]
#[case::test_passes(json!({"a": [1]}), json!([{"op": "test", "path": "/a", "value": [1]}]), json!({"a": [1]}))]
#[case::test_absent_is_null(json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({}))]
fn applies(#[case] original: Value, #[case] patch: Value, #[case] expected: Value) {
    assert_eq!(apply(&original, &patch).unwrap(), expected);
}

#[rstest]
#[case::test_fails(json!([{"op": "test", "path": "/a", "value": 2}]), 422, "testing value /a failed")]
#[case::remove_absent(json!([{"op": "remove", "path": "/x"}]), 422, "nonexistent key: x")]
#[case::missing_parent(json!([{"op": "add", "path": "/x/y", "value": 1}]), 422, "doc is missing path: \"/x/y\"")]
#[case::through_scalar(json!([{"op": "add", "path": "/a/y", "value": 1}]), 422, "doc is missing path")]
#[case::no_slash(json!([{"op": "add", "path": "x", "value": 1}]), 422, "doc is missing path: \"x\"")]
#[case::no_path(json!([{"op": "add", "value": 1}]), 422, "\"path\" is missing")]
#[case::bad_index(json!([{"op": "add", "path": "/l/x", "value": 1}]), 422, "not a proper array index")]
#[case::index_out_of_range(json!([{"op": "replace", "path": "/l/9", "value": 1}]), 422, "invalid index: 9")]
#[case::index_too_negative(json!([{"op": "remove", "path": "/l/-9"}]), 422, "invalid index: -9")]
#[case::scalar_document(json!([{"op": "replace", "path": "", "value": 1}]), 422, "object or a list")]
#[case::unknown(json!([{"op": "frobnicate", "path": "/a"}]), 422, "unexpected kind: frobnicate")]
#[case::no_list(json!({"op": "add"}), 400, "list of operations")]
#[case::wrong_type(json!([{"op": 1}]), 400, "operation 0")]
fn refuses(#[case] patch: Value, #[case] code: u16, #[case] words: &str) {
    let status = apply(&json!({"a": 1, "l": [1]}), &patch).unwrap_err();
    assert_eq!(status.code, code, "{status}");
    assert!(status.message.contains(words), "{status}");
}

#[test]
fn all_operations_or_none_and_the_failing_one_is_named() {
    let original = json!({"a": 1});
    let patch = json!([{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/a", "value": 3}]);
    let status = apply(&original, &patch).unwrap_err();
    assert!(status.message.contains("operation 1 (test)"), "{status}");
}

#[test]
fn too_many_operations_are_refused() {
    let operation = json!({"op": "test", "path": "/a", "value": 1});
    let allowed = Value::Array(vec![operation.clone(); MAX_OPERATIONS]);
    assert!(apply(&json!({"a": 1}), &allowed).is_ok());
    let status = apply(&json!({"a": 1}), &Value::Array(vec![operation; MAX_OPERATIONS + 1])).unwrap_err();
    assert_eq!(status.code, 413);
    assert_eq!(status.message, "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn copies_that_double_themselves_are_refused() {
    let doubling = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 60]);
    let status = apply(&json!({"a": ["x"]}), &doubling).unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.contains("exceed"), "{status}");
}
