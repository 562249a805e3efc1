use machinery::field::Path;
use machinery::schema::{self, Schema};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

/// A schema with one property, `spec`, under a root object.
fn with_spec(spec: &Value) -> Schema {
    Schema::from_json_schema(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn lines(causes: &[machinery::status::Cause]) -> Vec<String> {
    causes.iter().map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message)).collect()
}

#[rstest]
#[case::wrong_type(json!({"type": "integer"}), json!("x"), r#"FieldValueTypeInvalid spec: Invalid value: "string": spec in body must be of type integer: "string""#)]
#[case::wrong_type_with_format(json!({"type": "integer", "format": "int32"}), json!(true), r#"FieldValueTypeInvalid spec: Invalid value: "": spec in body must be of type int32: """#)]
#[case::int_or_string(json!({"x-kubernetes-int-or-string": true}), json!(true), r#"FieldValueTypeInvalid spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#)]
#[case::null(json!({"type": "string"}), json!(null), r#"FieldValueTypeInvalid spec: Invalid value: "null": spec in body must be of type string: "null""#)]
#[case::required(json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}), json!({}), "FieldValueRequired spec.a: Required value")]
#[case::enumeration(json!({"type": "string", "enum": ["a", "b"]}), json!("c"), r#"FieldValueNotSupported spec: Unsupported value: "c": supported values: "a", "b""#)]
#[case::minimum(json!({"type": "integer", "minimum": 1}), json!(0), "FieldValueInvalid spec: Invalid value: 0: spec in body should be greater than or equal to 1")]
#[case::exclusive_maximum(json!({"type": "integer", "maximum": 10, "exclusiveMaximum": true}), json!(10), "FieldValueInvalid spec: Invalid value: 10: spec in body should be less than 10")]
#[case::float_bound(json!({"type": "number", "minimum": 0.5}), json!(0.25), "FieldValueInvalid spec: Invalid value: 0.25: spec in body should be greater than or equal to 0.5")]
#[case::multiple(json!({"type": "integer", "multipleOf": 3}), json!(4), "FieldValueInvalid spec: Invalid value: 4: spec in body should be a multiple of 3")]
#[case::int32(json!({"type": "integer", "format": "int32"}), json!(3_000_000_000_i64), r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec"#)]
#[case::too_long(json!({"type": "string", "maxLength": 2}), json!("abc"), "FieldValueTooLong spec: Too long: may not be more than 2 bytes")]
#[case::too_short(json!({"type": "string", "minLength": 4}), json!("abc"), r#"FieldValueInvalid spec: Invalid value: "abc": spec in body should be at least 4 chars long"#)]
#[case::pattern(json!({"type": "string", "pattern": "^[a-z]+$"}), json!("A1"), r#"FieldValueInvalid spec: Invalid value: "A1": spec in body should match '^[a-z]+$'"#)]
#[case::format(json!({"type": "string", "format": "date-time"}), json!("soon"), r#"FieldValueTypeInvalid spec: Invalid value: "soon": spec in body must be of type date-time: "soon""#)]
#[case::too_many_items(json!({"type": "array", "maxItems": 1, "items": {"type": "integer"}}), json!([1, 2]), "FieldValueTooMany spec: Too many: 2: must have at most 1 item")]
#[case::too_few_items(json!({"type": "array", "minItems": 1, "items": {"type": "integer"}}), json!([]), "FieldValueInvalid spec: Invalid value: 0: spec in body should have at least 1 items")]
#[case::item(json!({"type": "array", "items": {"type": "integer"}}), json!([1, "x"]), r#"FieldValueTypeInvalid spec[1]: Invalid value: "string": spec[1] in body must be of type integer: "string""#)]
#[case::map_value(json!({"type": "object", "additionalProperties": {"type": "integer"}}), json!({"k": "x"}), r#"FieldValueTypeInvalid spec.k: Invalid value: "string": spec.k in body must be of type integer: "string""#)]
#[case::too_few_properties(json!({"type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": true}), json!({}), "FieldValueInvalid spec: Invalid value: 0: spec in body should have at least 1 properties")]
#[case::not(json!({"type": "string", "not": {"enum": ["x"]}}), json!("x"), r#"FieldValueInvalid <nil>: Invalid value: "": "spec" must not validate the schema (not)"#)]
fn a_wrong_value_is_refused_in_the_words_of_the_api_server(
    #[case] schema: Value,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let causes = schema::validate(&with_spec(&schema), &json!({"spec": value}));
    assert_eq!(lines(&causes), [expected]);
}

#[test]
fn one_of_reports_the_best_matching_branch() {
    let schema = with_spec(&json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }));
    let none = schema::validate(&schema, &json!({"spec": {}}));
    assert_eq!(
        lines(&none),
        [
            r#"FieldValueInvalid <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "FieldValueRequired spec.a: Required value",
        ]
    );
    let both = schema::validate(&schema, &json!({"spec": {"a": "", "b": ""}}));
    assert_eq!(
        lines(&both),
        [
            r#"FieldValueInvalid <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert!(schema::validate(&schema, &json!({"spec": {"a": ""}})).is_empty());
}

#[test]
fn any_of_and_all_of_say_which_and_why() {
    let schema =
        with_spec(&json!({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 5}], "allOf": [{"minimum": 3}]}));
    assert_eq!(
        lines(&schema::validate(&schema, &json!({"spec": 2}))),
        [
            r#"FieldValueInvalid <nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)"#,
            "FieldValueInvalid spec: Invalid value: 2: spec in body should be less than or equal to 1",
            "FieldValueInvalid spec: Invalid value: 2: spec in body should be greater than or equal to 3",
            r#"FieldValueInvalid <nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated"#,
        ]
    );
}

#[test]
fn unchanged_faults_are_forgiven_on_update() {
    let schema = with_spec(&json!({
        "type": "object",
        "properties": {
            "old": {"type": "string", "maxLength": 2},
            "list": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 1}}},
            },
        },
    }));
    let before = json!({"spec": {"old": "too long", "list": [{"name": "a", "n": 5}]}});
    let moved = json!({"spec": {"old": "too long", "list": [{"name": "b", "n": 0}, {"name": "a", "n": 5}]}});
    assert_eq!(schema::validate_update(&schema, &moved, &before), []);
    let worse = json!({"spec": {"old": "also long", "list": [{"name": "a", "n": 6}]}});
    assert_eq!(schema::validate_update(&schema, &worse, &before).len(), 2);
}

#[test]
fn a_status_is_judged_on_its_own() {
    let part =
        json!({"type": "object", "properties": {"phase": {"type": "string"}, "n": {"type": "integer", "maximum": 1}}});
    let document = json!({"type": "object", "properties": {"spec": part, "status": part}});
    let schema = Schema::from_json_schema(&document).unwrap();
    let old = json!({"spec": {"n": 5}, "status": {}});
    let new = json!({"spec": {"n": 5}, "status": {"phase": 1}});
    let expected = r#"FieldValueTypeInvalid status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#;
    assert_eq!(lines(&schema::judge_status(&schema, None, &new, &old)), [expected]);
    assert_eq!(schema::judge_status(&schema, None, &old, &old), []);
}

#[rstest]
#[case::set(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}), json!(["a", "b", "a", "a"]), r#"FieldValueDuplicate spec[2]: Duplicate value: "a""#)]
#[case::map(
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}),
    json!([{"name": "a"}, {"name": "a"}]),
    r#"FieldValueDuplicate spec[1]: Duplicate value: {"name":"a"}"#
)]
fn list_items_must_differ(#[case] schema: Value, #[case] value: Value, #[case] expected: &str) {
    let causes = schema::validate_lists(&with_spec(&schema), &json!({"spec": value}), &Path::ROOT);
    assert_eq!(lines(&causes), [expected]);
}

#[test]
fn embedded_resources_need_a_type_and_sound_metadata() {
    let schema = with_spec(
        &json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
    );
    let causes = schema::validate_embedded(
        &schema,
        &json!({"spec": {"kind": "A_b", "metadata": {"labels": {"a b": "c"}}}}),
        &Path::ROOT,
    );
    assert_eq!(causes[0].field, "spec.apiVersion");
    assert!(
        causes[1].message.starts_with(r#"Invalid value: "A_b": may have mixed case, but should otherwise match: "#),
        "{causes:?}"
    );
    assert_eq!(causes[2].field, "spec.metadata.labels");
}

#[rstest]
#[case::root_type(json!({"type": "string"}), &[r#"FieldValueInvalid openAPIV3Schema.type: Invalid value: "string": must be object at the root"#])]
#[case::no_type(json!({}), &["FieldValueRequired openAPIV3Schema.type: Required value: must not be empty at the root"])]
#[case::property_without_type(json!({"type": "object", "properties": {"a": {}}}), &["FieldValueRequired openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields"])]
#[case::items(json!({"type": "object", "properties": {"a": {"type": "array"}}}), &["FieldValueRequired openAPIV3Schema.properties[a].items: Required value: must be specified"])]
#[case::nested_type(json!({"type": "object", "allOf": [{"type": "object"}]}), &["FieldValueForbidden openAPIV3Schema.allOf[0].type: Forbidden: must be empty to be structural"])]
#[case::incomplete(json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}), &["FieldValueRequired openAPIV3Schema.properties[a]: Required value: because it is defined in openAPIV3Schema.anyOf[0].properties[a]"])]
#[case::reference(json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}}), &["FieldValueForbidden openAPIV3Schema.properties[a].$ref: Forbidden: $ref is not supported"])]
#[case::unique(json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}}}), &["FieldValueForbidden openAPIV3Schema.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"])]
#[case::metadata(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}), &["FieldValueForbidden openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"])]
#[case::list_map_keys(json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}), &["FieldValueRequired openAPIV3Schema.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"])]
#[case::default(json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}), &[r#"FieldValueTypeInvalid openAPIV3Schema.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#])]
#[case::mixed(json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}), &["FieldValueForbidden openAPIV3Schema.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"])]
fn a_schema_that_is_not_structural_is_refused(#[case] schema: Value, #[case] expected: &[&str]) {
    assert_eq!(lines(&Schema::from_json_schema(&schema).unwrap_err()), expected);
}

#[test]
fn pruning_names_what_it_dropped() {
    let schema = with_spec(&json!({
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"typed": {"type": "object"}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
        },
    }));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "wrong": 1}, "status": {},
        "spec": {"list": [{"a": "", "b": 1}], "free": {"any": {"thing": 1}, "typed": {"no": 1}}, "map": {"k": {"x": "", "y": ""}}},
    });
    let dropped = schema::prune(&schema, &mut object);
    assert_eq!(dropped, ["metadata.wrong", "spec.free.typed.no", "spec.list[0].b", "spec.map.k.y", "status"]);
    assert_eq!(
        object["spec"],
        json!({"list": [{"a": ""}], "free": {"any": {"thing": 1}, "typed": {}}, "map": {"k": {"x": ""}}})
    );
}

#[test]
fn defaults_reach_into_what_they_create() {
    let schema = with_spec(&json!({
        "type": "object", "default": {},
        "properties": {
            "a": {"type": "object", "default": {"x": 1}, "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 2}}},
            "n": {"type": "string", "nullable": true, "default": "n"},
            "m": {"type": "string", "default": "m"},
            "gone": {"type": "string"},
        },
    }));
    let mut empty = json!({});
    schema::default(&schema, &mut empty);
    assert_eq!(empty, json!({"spec": {"a": {"x": 1, "y": 2}, "n": "n", "m": "m"}}));
    let mut nulls = json!({"spec": {"a": {"x": 3}, "n": null, "m": null, "gone": null}});
    schema::drop_nulls(&schema, &mut nulls);
    schema::default(&schema, &mut nulls);
    assert_eq!(nulls, json!({"spec": {"a": {"x": 3, "y": 2}, "n": null, "m": "m"}}));
}

#[test]
fn openapi_keeps_what_was_read() {
    let spec = json!({
        "type": "object", "description": "All of it.", "required": ["a"],
        "properties": {
            "a": {"type": "string", "enum": ["x"], "pattern": "x", "maxLength": 3, "default": "x"},
            "b": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 4, "items": {"type": "integer", "format": "int32", "minimum": 1}},
            "c": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "d": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "number", "nullable": true}},
        },
        "x-kubernetes-validations": [{"rule": "self.a == 'x'", "message": "no"}],
    });
    assert_eq!(with_spec(&spec).to_openapi()["properties"]["spec"], spec);
}

/// JSON of moderate size with few keys, so that schema and value often meet.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5_i64..5).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "z"})),
        Just(json!({"type": "integer", "nullable": true, "default": 3})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "object"})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|other| json!({"type": "object", "additionalProperties": other})),
            (prop::collection::btree_map("[a-d]", inner, 0..4), any::<bool>()).prop_map(|(properties, defaulted)| {
                let mut schema = json!({"type": "object", "properties": properties});
                if defaulted {
                    schema["default"] = json!({});
                }
                schema
            }),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_twice_change_nothing_more(schema in any_schema(), value in any_value()) {
        let schema = with_spec(&schema);
        let mut object = json!({"spec": value});
        schema::prune(&schema, &mut object);
        let pruned = object.clone();
        prop_assert_eq!(schema::prune(&schema, &mut object), Vec::<String>::new());
        prop_assert_eq!(&object, &pruned);
        schema::default(&schema, &mut object);
        let defaulted = object.clone();
        schema::default(&schema, &mut object);
        prop_assert_eq!(&object, &defaulted);
        // Defaults name no unknown fields, and checking never fails on any value.
        prop_assert_eq!(schema::prune(&schema, &mut object), Vec::<String>::new());
        schema::validate(&schema, &object);
    }
}
