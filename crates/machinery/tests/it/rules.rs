use machinery::schema::Schema;
use machinery::schema::rules::{Compiled, blocked};
use machinery::status::Cause;
use rstest::rstest;
use serde_json::{Value, json};

fn with_spec(spec: &Value) -> Schema {
    Schema::from_json_schema(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn compile(spec: &Value) -> Compiled {
    Compiled::new(&with_spec(spec)).unwrap()
}

fn lines(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message)).collect()
}

fn rule(expression: &str) -> Value {
    json!([{"rule": expression}])
}

#[rstest]
#[case::object(json!({"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}, "x-kubernetes-validations": rule("self.min <= self.max")}), json!({"min": 2, "max": 1}), &["FieldValueInvalid spec: Invalid value: failed rule: self.min <= self.max"])]
#[case::scalar(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3", "message": " too small "}]}), json!(2), &["FieldValueInvalid spec: Invalid value: 2: too small"])]
#[case::reason_and_path(
    json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "has(self.a) || has(self.b)", "reason": "FieldValueRequired", "fieldPath": ".a", "message": "a or b"}]}),
    json!({}), &["FieldValueRequired spec.a: Required value: a or b"]
)]
#[case::message_expression(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'", "messageExpression": "'not ' + self"}]}), json!("y"), &["FieldValueInvalid spec: Invalid value: \"y\": not y"])]
#[case::missing_key(json!({"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": rule("self.a > 0")}), json!({}), &["FieldValueInvalid spec: Invalid value: \"object\": no such key: a evaluating rule: self.a > 0"])]
#[case::items(json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": rule("self.startsWith('a')")}}), json!(["a", "b"]), &["FieldValueInvalid spec[1]: Invalid value: \"b\": failed rule: self.startsWith('a')"])]
#[case::map_values(json!({"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": rule("self > 0")}}), json!({"k": 0}), &["FieldValueInvalid spec[k]: Invalid value: 0: failed rule: self > 0"])]
#[case::escaped(json!({"type": "object", "properties": {"a-b": {"type": "integer"}, "namespace": {"type": "string"}, "x_y": {"type": "integer"}}, "x-kubernetes-validations": rule("self.a__dash__b == 1 && self.__namespace__ == 'n' && self.x_y == 1")}), json!({"a-b": 1, "namespace": "n", "x_y": 1}), &[])]
#[case::functions(json!({"type": "object", "properties": {"q": {"type": "string"}, "u": {"type": "string"}, "l": {"type": "array", "items": {"type": "integer"}, "maxItems": 9}}, "x-kubernetes-validations": rule("isQuantity(self.q) && quantity(self.q).isLessThan(quantity('1Gi')) && isURL(self.u) && self.l.isSorted() && self.l.all(x, x > 0) && self.u.matches('^https://')")}), json!({"q": "5Mi", "u": "https://a.b/c", "l": [1, 2]}), &[])]
#[case::time(json!({"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"}}, "x-kubernetes-validations": rule("self.t.getFullYear() == 2026 && self.d > duration('1m')")}), json!({"t": "2026-01-01T00:00:00Z", "d": "1h"}), &[])]
#[case::int_or_string(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-validations": rule("type(self) == int ? self > 0 : self.endsWith('%')")}), json!("5%"), &[])]
fn rules_on_create(#[case] schema: Value, #[case] value: Value, #[case] expected: &[&str]) {
    assert_eq!(lines(&compile(&schema).check(&json!({"spec": value}), None)), expected);
}

#[test]
fn transition_rules_wait_for_an_old_value() {
    let compiled = compile(
        &json!({"type": "object", "properties": {"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "may not shrink"}]}}}),
    );
    assert_eq!(compiled.check(&json!({"spec": {"a": 1}}), None), []);
    assert_eq!(compiled.check(&json!({"spec": {"a": 1}}), Some(&json!({"spec": {}}))), []);
    let shrunk = compiled.check(&json!({"spec": {"a": 1}}), Some(&json!({"spec": {"a": 2}})));
    assert_eq!(lines(&shrunk), ["FieldValueInvalid spec.a: Invalid value: 1: may not shrink"]);
}

#[test]
fn optional_old_self_is_there_on_create_too() {
    let compiled = compile(
        &json!({"type": "integer", "x-kubernetes-validations": [{"rule": "oldSelf.hasValue() || self == 0", "optionalOldSelf": true}]}),
    );
    assert_eq!(compiled.check(&json!({"spec": 1}), None).len(), 1);
    assert_eq!(compiled.check(&json!({"spec": 1}), Some(&json!({"spec": 2}))), []);
}

#[test]
fn unchanged_values_are_forgiven_unless_the_rule_compares() {
    let compiled = compile(
        &json!({"type": "object", "properties": {"a": {"type": "integer", "x-kubernetes-validations": rule("self > 5")}, "b": {"type": "integer"}}}),
    );
    let old = json!({"spec": {"a": 1, "b": 1}});
    assert_eq!(compiled.check(&json!({"spec": {"a": 1, "b": 2}}), Some(&old)), []);
    assert_eq!(compiled.check(&json!({"spec": {"a": 2, "b": 1}}), Some(&old)).len(), 1);
}

#[test]
fn list_maps_correlate_by_key() {
    let compiled = compile(
        &json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "maxItems": 10,
        "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}, "x-kubernetes-validations": rule("self.v == oldSelf.v")}}),
    );
    let old = json!({"spec": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]});
    assert_eq!(compiled.check(&json!({"spec": [{"n": "b", "v": 2}, {"n": "c", "v": 9}]}), Some(&old)), []);
    assert_eq!(compiled.check(&json!({"spec": [{"n": "b", "v": 3}]}), Some(&old)).len(), 1);
}

#[rstest]
#[case::undefined_field(json!({"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": rule("self.b > 0")}), "compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > 0\n | ....^")]
#[case::undeclared(json!({"type": "object", "x-kubernetes-validations": rule("foo == 1")}), "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^")]
fn rules_that_cannot_work_are_refused(#[case] schema: Value, #[case] detail: &str) {
    let causes = Compiled::new(&with_spec(&schema)).unwrap_err();
    assert_eq!(causes.len(), 1);
    assert_eq!(causes[0].field, "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule");
    assert!(causes[0].message.ends_with(detail), "{}", causes[0].message);
    assert!(causes[0].message.starts_with("Invalid value: {\"Rule\":"), "{}", causes[0].message);
}

#[test]
fn syntax_errors_are_refused_and_never_panic() {
    for expression in ["self.", "self ==", "((", "'", "self..a", "\u{0}", "a ? b", "[1,", "self.all(x"] {
        let schema = with_spec(&json!({"type": "object", "x-kubernetes-validations": rule(expression)}));
        let causes = Compiled::new(&schema).unwrap_err();
        assert!(causes[0].message.contains("compilation failed: ERROR: <input>"), "{expression}: {causes:?}");
    }
}

#[test]
fn rules_that_may_run_for_ever_are_refused() {
    let list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rule("self.all(a, self.all(b, a != b || a == b))")});
    let causes = Compiled::new(&with_spec(&list)).unwrap_err();
    assert!(
        causes[0].message.starts_with("Forbidden: estimated rule cost exceeds budget by factor of more than 100x"),
        "{causes:?}"
    );
    let mut bounded = list;
    bounded["maxItems"] = json!(100);
    bounded["items"]["maxLength"] = json!(100);
    compile(&bounded);
}

#[test]
fn old_self_needs_values_that_can_be_told_apart() {
    let schema = with_spec(
        &json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": rule("self == oldSelf")}}),
    );
    let causes = Compiled::new(&schema).unwrap_err();
    let wanted =
        "oldSelf cannot be used on the uncorrelatable portion of the schema within openAPIV3Schema.properties[spec]";
    assert!(causes.iter().any(|cause| cause.message.ends_with(wanted)), "{causes:?}");
}

#[test]
fn type_errors_keep_rules_from_running() {
    let cause = |reason: &str| Cause { reason: reason.into(), message: String::new(), field: String::new() };
    assert!(blocked(&[cause("FieldValueInvalid")]).is_none());
    let blocked = blocked(&[cause("FieldValueTypeInvalid")]).unwrap();
    assert_eq!(blocked.field, "<nil>");
    assert!(blocked.message.starts_with("Invalid value: null: some validation rules were not checked"));
}
