use machinery::jsonpath::Path;
use machinery::table::{Column, human_duration};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case(".a.b", json!([1]))]
#[case("{.a.b}", json!([1]))]
#[case(".missing.b", json!([]))]
#[case(".list[0].n", json!(["x"]))]
#[case(".list[-1].n", json!(["z"]))]
#[case(".list[*].n", json!(["x", "y", "z"]))]
#[case(".list[0:2].n", json!(["x", "y"]))]
#[case(".list[::2].n", json!(["x", "z"]))]
#[case(".list[0,2].n", json!(["x", "z"]))]
#[case(".list[?(@.n==\"y\")].v", json!([2]))]
#[case(".list[?(@.v>1)].n", json!(["y", "z"]))]
#[case(".list[?(@.ok)].n", json!(["z"]))]
#[case(".list[?(@.ok==true)].n", json!(["z"]))]
#[case(".keys['a.b/c']", json!(["d"]))]
#[case(".keys.a\\.b/c", json!(["d"]))]
#[case("..n", json!(["x", "y", "z"]))]
#[case(".a.*", json!([1]))]
fn paths(#[case] path: &str, #[case] expected: Value) {
    let object = json!({
        "a": {"b": 1}, "keys": {"a.b/c": "d"},
        "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "z", "v": 3, "ok": true}],
    });
    let path = Path::parse(path).unwrap();
    assert_eq!(json!(path.evaluate(&object).unwrap()), expected);
}

#[rstest]
#[case(".a[", "unterminated array")]
#[case(".a[x]", "invalid array index x")]
#[case("foo", "unrecognized identifier foo")]
#[case("....a", "invalid multiple recursive descent")]
#[case(".a[?(@.b==\"c\"]", "unterminated filter")]
fn bad_paths(#[case] path: &str, #[case] expected: &str) {
    assert_eq!(Path::parse(path).unwrap_err().to_string(), expected);
}

#[rstest]
#[case("string", json!({"v": "x"}), json!("x"))]
#[case("string", json!({"v": 3}), json!("3"))]
#[case("string", json!({"v": [1, {"a": 2}]}), json!("[1,{\"a\":2}]"))]
#[case("integer", json!({"v": 3}), json!(3))]
#[case("integer", json!({"v": "3"}), json!(null))]
#[case("boolean", json!({"v": true}), json!(true))]
#[case("date", json!({"v": "2026-01-01T00:00:00Z"}), json!("3h"))]
#[case("date", json!({"v": "soon"}), json!("<invalid>"))]
#[case("string", json!({}), json!(null))]
fn printer_columns(#[case] value_type: &str, #[case] object: Value, #[case] expected: Value) {
    let column = Column::read(&json!({"name": "V", "type": value_type, "jsonPath": ".v"})).unwrap();
    assert_eq!(column.cell(&object, "2026-01-01T03:00:20Z".parse().unwrap()), expected);
}

#[rstest]
#[case(-5, "<invalid>")]
#[case(0, "0s")]
#[case(119, "119s")]
#[case(120, "2m")]
#[case(125, "2m5s")]
#[case(600, "10m")]
#[case(3 * 3600 + 60, "3h1m")]
#[case(9 * 3600, "9h")]
#[case(3 * 86400, "3d")]
#[case(3 * 86400 + 7200, "3d2h")]
#[case(9 * 86400, "9d")]
#[case(800 * 86400, "2y70d")]
#[case(10 * 365 * 86400, "10y")]
fn durations(#[case] seconds: i64, #[case] expected: &str) {
    assert_eq!(human_duration(seconds), expected);
}

proptest! {
    #[test]
    fn parsing_and_walking_never_panic(text in "[.a*\\[\\]?@()='\"0-9:,{}$ \\\\-]{0,16}") {
        if let Ok(path) = Path::parse(&text) {
            let _ = path.evaluate(&json!({"a": [{"a": 1}, [2]]}));
        }
    }
}
