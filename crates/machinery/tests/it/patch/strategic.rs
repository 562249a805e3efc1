use machinery::patch::strategic::apply;
use rstest::rstest;
use serde_json::{Value, json};

use crate::shape::{deployment, integer, keyed, list, map_of, object, retain_keys, set, string};

fn schema() -> machinery::schema::Schema {
    let item = object([
        ("name", string()),
        ("value", integer()),
        ("tags", set(string())),
        ("inner", keyed(&["name"], object([("name", string()), ("value", integer())]))),
    ]);
    object([
        ("items", keyed(&["name"], item)),
        ("plain", list(integer())),
        ("set", set(string())),
        ("labels", map_of(string())),
        ("union", retain_keys(object([("type", string()), ("a", object([("x", integer())])), ("b", string())]))),
    ])
}

#[rstest]
// Objects
#[case::sets_and_deletes(json!({"labels": {"a": "1", "b": "2"}}), json!({"labels": {"a": null, "c": "3"}}), json!({"labels": {"b": "2", "c": "3"}}))]
#[case::replace_object(json!({"labels": {"a": "1"}}), json!({"labels": {"$patch": "replace", "b": "2"}}), json!({"labels": {"b": "2"}}))]
#[case::delete_object(json!({"labels": {"a": "1"}}), json!({"labels": {"$patch": "delete"}}), json!({"labels": {}}))]
#[case::delete_absent_object(json!({}), json!({"labels": {"$patch": "delete"}}), json!({}))]
#[case::nulls_of_new_objects(json!({}), json!({"labels": {"a": null, "b": "1"}}), json!({"labels": {"b": "1"}}))]
#[case::retain_keys(
    json!({"union": {"type": "A", "a": {"x": 1}}}),
    json!({"union": {"$retainKeys": ["type", "b"], "type": "B", "b": "z"}}),
    json!({"union": {"type": "B", "b": "z"}}))]
#[case::retain_keys_allows_nulls(
    json!({"union": {"type": "A", "a": {"x": 1}}}),
    json!({"union": {"$retainKeys": ["type"], "a": null}}),
    json!({"union": {"type": "A"}}))]
// Lists without a strategy
#[case::plain_list_is_replaced(json!({"plain": [1, 2]}), json!({"plain": [3]}), json!({"plain": [3]}))]
// Lists of scalars
#[case::set_is_united(json!({"set": ["a", "b"]}), json!({"set": ["c", "a"]}), json!({"set": ["c", "a", "b"]}))]
#[case::set_deletes(
    json!({"set": ["a", "b", "c"]}),
    json!({"$deleteFromPrimitiveList/set": ["b", "x"]}),
    json!({"set": ["a", "c"]}))]
#[case::set_deletes_from_nothing(json!({}), json!({"$deleteFromPrimitiveList/set": ["b"]}), json!({}))]
#[case::set_order(
    json!({"set": ["a", "b", "c"]}),
    json!({"$setElementOrder/set": ["c", "a"], "$deleteFromPrimitiveList/set": ["b"]}),
    json!({"set": ["c", "a"]}))]
#[case::set_order_and_additions(
    json!({"set": ["a", "server"]}),
    json!({"$setElementOrder/set": ["new", "a"], "set": ["new"]}),
    json!({"set": ["new", "a", "server"]}))]
// Lists of objects
#[case::merges_by_key(
    json!({"items": [{"name": "a", "value": 1}, {"name": "b", "value": 2}]}),
    json!({"items": [{"name": "b", "value": 3}]}),
    json!({"items": [{"name": "a", "value": 1}, {"name": "b", "value": 3}]}))]
#[case::new_items_come_first(
    json!({"items": [{"name": "a"}]}),
    json!({"items": [{"name": "b"}]}),
    json!({"items": [{"name": "b"}, {"name": "a"}]}))]
#[case::server_items_keep_their_place(
    json!({"items": [{"name": "a"}, {"name": "s"}, {"name": "b"}]}),
    json!({"items": [{"name": "b", "value": 1}, {"name": "a", "value": 2}]}),
    json!({"items": [{"name": "s"}, {"name": "b", "value": 1}, {"name": "a", "value": 2}]}))]
#[case::deletes_item(
    json!({"items": [{"name": "a"}, {"name": "b"}]}),
    json!({"items": [{"$patch": "delete", "name": "a"}]}),
    json!({"items": [{"name": "b"}]}))]
#[case::replaces_list(
    json!({"items": [{"name": "a", "value": 1}, {"name": "b"}]}),
    json!({"items": [{"name": "a"}, {"$patch": "replace"}]}),
    json!({"items": [{"name": "a"}]}))]
#[case::replaces_item(
    json!({"items": [{"name": "a", "value": 1, "tags": ["x"]}]}),
    json!({"items": [{"name": "a", "tags": {"$patch": "delete"}}]}),
    json!({"items": [{"name": "a", "value": 1}]}))]
#[case::order(
    json!({"items": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
    json!({"$setElementOrder/items": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
    json!({"items": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}))]
#[case::order_with_changes(
    json!({"items": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
    json!({"$setElementOrder/items": [{"name": "b"}, {"name": "d"}, {"name": "a"}],
           "items": [{"name": "d", "value": 4}, {"name": "a", "value": 1}, {"name": "c", "$patch": "delete"}]}),
    json!({"items": [{"name": "b"}, {"name": "d", "value": 4}, {"name": "a", "value": 1}]}))]
#[case::order_keeps_server_items_interleaved(
    json!({"items": [{"name": "s1"}, {"name": "a"}, {"name": "s2"}, {"name": "b"}]}),
    json!({"$setElementOrder/items": [{"name": "a"}, {"name": "b"}]}),
    json!({"items": [{"name": "s1"}, {"name": "a"}, {"name": "s2"}, {"name": "b"}]}))]
#[case::nested_lists(
    json!({"items": [{"name": "a", "inner": [{"name": "x", "value": 1}, {"name": "y", "value": 2}], "tags": ["p"]}]}),
    json!({"items": [{"name": "a", "inner": [{"name": "y", "value": 3}, {"name": "x", "$patch": "delete"}],
           "tags": ["q"], "$setElementOrder/tags": ["p", "q"]}]}),
    json!({"items": [{"name": "a", "inner": [{"name": "y", "value": 3}], "tags": ["p", "q"]}]}))]
#[case::absent_list_drops_directives(
    json!({}),
    json!({"items": [{"name": "a", "$patch": "delete"}, {"name": "b", "inner": [{"$patch": "delete", "name": "x"}]}]}),
    json!({"items": [{"name": "b", "inner": []}]}))]
#[case::unknown_fields_merge_as_json(json!({"odd": {"a": [1], "b": 2}}), json!({"odd": {"a": [2]}}), json!({"odd": {"a": [2], "b": 2}}))]
fn applies(#[case] original: Value, #[case] patch: Value, #[case] expected: Value) {
    assert_eq!(apply(&schema(), &original, &patch).unwrap(), expected);
}

#[rstest]
#[case::no_object(json!([]), "must be a JSON object")]
#[case::unknown_directive(json!({"labels": {"$patch": "explode"}}), "unknown patch type")]
#[case::merge_directive(json!({"labels": {"$patch": "merge"}}), "unknown patch type")]
#[case::merge_directive_in_list(json!({"items": [{"name": "a", "$patch": "merge"}]}), "cannot yet be specified")]
#[case::no_merge_key(json!({"items": [{"value": 1}]}), "does not contain declared merge key: name")]
#[case::delete_without_key(json!({"items": [{"$patch": "delete"}]}), "does not contain declared merge key: name")]
#[case::retain_keys_is_no_list(json!({"union": {"$retainKeys": 1}}), "retainKeys")]
#[case::retain_keys_misses_a_key(json!({"union": {"$retainKeys": ["type"], "b": "x"}}), "retainKeys")]
#[case::order_is_no_list(json!({"$setElementOrder/items": 1}), "setElementOrder")]
#[case::order_misses_an_item(json!({"$setElementOrder/items": [{"name": "a"}], "items": [{"name": "z"}]}), "doesn't match")]
#[case::deletions_are_no_list(json!({"$deleteFromPrimitiveList/set": "a"}), "primitive list")]
#[case::mixed_types(json!({"items": ["a"]}), "not identical")]
#[case::lists_of_lists(json!({"set": [["a"]]}), "lists of lists")]
#[case::null_item(json!({"set": [null]}), "null")]
fn refuses(#[case] patch: Value, #[case] words: &str) {
    let original = json!({"labels": {"a": "1"}, "items": [{"name": "a"}], "set": ["a"], "union": {"type": "A"}});
    let status = apply(&schema(), &original, &patch).unwrap_err();
    assert!(matches!(status.code, 400 | 422), "{status:?}");
    assert!(status.message.contains(words), "{status}");
}

/// What `kubectl apply` sends when an image changes and a volume turns from one source to another.
#[test]
fn applies_what_kubectl_sends() {
    let live = json!({"spec": {"replicas": 3, "template": {"spec": {
        "containers": [{"name": "sidecar", "image": "s:1"}, {"name": "app", "image": "app:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}],
        "volumes": [{"name": "data", "emptyDir": {}}]}}}});
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "app"}],
        "containers": [{"name": "app", "image": "app:2", "$setElementOrder/env": [{"name": "B"}],
                        "env": [{"name": "A", "$patch": "delete"}]}],
        "$setElementOrder/volumes": [{"name": "data"}],
        "volumes": [{"$retainKeys": ["name", "configMap"], "name": "data", "configMap": {"name": "settings"}, "emptyDir": null}]}}}});
    let expected = json!({"spec": {"replicas": 3, "template": {"spec": {
        "containers": [{"name": "sidecar", "image": "s:1"}, {"name": "app", "image": "app:2", "env": [{"name": "B", "value": "2"}]}],
        "volumes": [{"name": "data", "configMap": {"name": "settings"}}]}}}});
    assert_eq!(apply(&deployment(), &live, &patch).unwrap(), expected);
}
