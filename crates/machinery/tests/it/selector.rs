use machinery::selector::{FieldSelector, LabelSelector};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};

fn labels(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[rstest]
#[case("", json!({}), true)]
#[case("a=b", json!({"a": "b"}), true)]
#[case("a==b", json!({"a": "c"}), false)]
#[case("a!=b", json!({}), true)]
#[case("a", json!({"a": ""}), true)]
#[case("!a", json!({"a": ""}), false)]
#[case("a in (x, y)", json!({"a": "y"}), true)]
#[case("a in (x,)", json!({"a": ""}), true)]
#[case("a notin (x,y)", json!({}), true)]
#[case("a notin (x,y)", json!({"a": "x"}), false)]
#[case("n>5,n<7", json!({"n": "6"}), true)]
#[case("n>5", json!({"n": "x"}), false)]
#[case("a=,b", json!({"a": "", "b": "1"}), true)]
#[case("in in (in)", json!({"in": "in"}), true)]
#[case("app.kubernetes.io/name=x", json!({"app.kubernetes.io/name": "x"}), true)]
fn label_selectors(#[case] text: &str, #[case] set: Value, #[case] expected: bool) {
    assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels(&set)), expected);
}

#[rstest]
#[case("a in x", "unable to parse requirement: found 'x' expected: '('")]
#[case("a=b=c", "found '=', expected: ',' or 'end of string'")]
#[case("a,", "found '', expected: identifier after ','")]
#[case("=b", "found '=', expected: !, identifier, or 'end of string'")]
#[case("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")]
#[case(
    "a>b",
    "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
)]
#[case(
    "a=@",
    "unable to parse requirement: values[0][a]: Invalid value: \"@\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)]
#[case(
    "@=a",
    "unable to parse requirement: <nil>: Invalid value: \"@\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)]
fn bad_label_selectors(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(LabelSelector::parse(text).unwrap_err().to_string(), expected);
}

#[test]
fn selector_objects() {
    let selector =
        json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}]});
    let selector = LabelSelector::from_object(Some(&selector)).unwrap();
    assert_eq!(selector.to_string(), "a=b,c notin (d)");
    assert!(selector.matches(&labels(&json!({"a": "b"}))));
    assert!(!LabelSelector::from_object(None).unwrap().matches(&Map::new()));
    assert!(LabelSelector::from_object(Some(&json!({}))).unwrap().matches(&Map::new()));
    let bad = LabelSelector::from_object(Some(&json!({"matchExpressions": [{"key": "a", "operator": "Near"}]})));
    assert_eq!(bad.unwrap_err().to_string(), "\"Near\" is not a valid label selector operator");
}

#[rstest]
#[case("metadata.name=a", true)]
#[case("metadata.name==a,status.phase!=Failed", true)]
#[case("status.phase=Failed", false)]
#[case("spec.missing=", true)]
#[case("spec.unschedulable=true", true)]
fn field_selectors(#[case] text: &str, #[case] expected: bool) {
    let object = json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}, "status": {"phase": "Running"}});
    assert_eq!(FieldSelector::parse(text).unwrap().matches_object(&object), expected);
}

#[rstest]
#[case("a", "invalid selector: 'a'; can't understand 'a'")]
#[case("a=b\\c", "invalid field selector: invalid escape sequence: \\c")]
#[case("a=b=c", "invalid field selector: unescaped character in value: 61")]
fn bad_field_selectors(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), expected);
}

proptest! {
    #[test]
    fn printed_selectors_parse_to_the_same(keys in prop::collection::btree_map("[a-z]{1,3}", (0..7_u8, prop::collection::btree_set("[a-z0-9]{0,3}", 1..3), any::<i8>()), 0..4)) {
        let text: Vec<String> = keys.into_iter().map(|(key, (operator, values, number))| {
            let first = values.iter().next().unwrap().clone();
            let list = values.into_iter().collect::<Vec<_>>().join(",");
            match operator {
                0 => format!("{key}={first}"),
                1 => format!("{key}!={first}"),
                2 => format!("{key} in ({list})"),
                3 => format!("{key} notin ({list})"),
                4 => key,
                5 => format!("!{key}"),
                _ => format!("{key}>{number}"),
            }
        }).collect();
        // A negative number is no label value.
        let Ok(selector) = LabelSelector::parse(&text.join(",")) else { return Ok(()) };
        prop_assert_eq!(&LabelSelector::parse(&selector.to_string()).unwrap(), &selector);
    }

    #[test]
    fn parsing_never_panics(text in "[a-c!=<>(), \\\\in]{0,12}|\\PC{0,12}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn field_selectors_round_trip(value in "[a-c\\\\,=]{0,6}") {
        let selector = FieldSelector { requirements: vec![machinery::selector::FieldRequirement { field: "a.b".into(), equal: false, value }] };
        prop_assert_eq!(&FieldSelector::parse(&selector.to_string()).unwrap(), &selector);
    }
}
