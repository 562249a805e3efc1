//! Fuzz targets of the machinery. Inputs are JSON or text; what is neither is of no interest.

use machinery::apply::{Kind, Writer, apply as apply_configuration, update};
use machinery::builtin;
use machinery::jsonpath::Path;
use machinery::patch::{json, merge, strategic};
use machinery::schema::{Schema, default, prune, validate};
use machinery::selector::{FieldSelector, LabelSelector};
use serde_json::Value;

/// `[object, patch]`: every patch type on a Deployment. What a merge patch makes, a second run leaves.
pub fn patch(data: &[u8]) {
    let Ok([original, change]) = serde_json::from_slice::<[Value; 2]>(data) else { return };
    let schema = builtin::schema("apps/v1", "Deployment").expect("it is built in");
    let _ = json::apply(&original, &change);
    let _ = strategic::apply(&schema, &original, &change);
    if let Ok(once) = merge::apply(&original, &change) {
        // A null inside a list stays where it is on the first run only when a list replaced an object.
        if !change.to_string().contains('[') {
            assert_eq!(merge::apply(&once, &change).ok(), Some(once));
        }
    }
}

/// `[live, first, second]`: two managers apply to what an update left. Applying again changes nothing.
pub fn apply(data: &[u8]) {
    let Ok([live, first, second]) = serde_json::from_slice::<[Value; 3]>(data) else { return };
    if !live.is_object() {
        return;
    }
    let schema = builtin::schema("apps/v1", "Deployment").expect("it is built in");
    let kind = Kind {
        schema: &schema,
        api_version: "apps/v1",
        kind: "Deployment",
        other_versions: &[],
        subresource: "",
        ignored: &[&["status"]],
    };
    let writer = |manager| Writer { manager, now: "2026-01-02T03:04:05Z" };
    let mut object = update(&kind, None, live, writer("other"));
    for (manager, config) in [("one", &first), ("two", &second)] {
        let later = Writer { manager, now: "2026-01-02T03:04:06Z" };
        let Ok(once) = apply_configuration(&kind, Some(&object), config, writer(manager), true) else { return };
        let twice = apply_configuration(&kind, Some(&once), config, later, true);
        assert_eq!(twice.as_ref(), Ok(&once), "applying twice");
        object = once;
    }
}

/// `[schema, object]`: a structural schema prunes and defaults to a fixed point and never panics.
pub fn schema(data: &[u8]) {
    let Ok([schema, mut object]) = serde_json::from_slice::<[Value; 2]>(data) else { return };
    let Ok(schema) = Schema::from_json_schema(&schema) else { return };
    let _ = schema.to_openapi();
    prune(&schema, &mut object);
    assert_eq!(prune(&schema, &mut object), Vec::<String>::new(), "pruning twice");
    default(&schema, &mut object);
    let once = object.clone();
    default(&schema, &mut object);
    assert_eq!(object, once, "defaulting twice");
    let _ = validate(&schema, &object);
}

/// Text: label and field selectors.
pub fn selectors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let object = serde_json::json!({"metadata": {"name": "a", "labels": {"app": "web", "size": "3"}}});
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = selector.matches_object(&object);
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let _ = selector.matches_object(&object);
    }
}

/// A path on the first line, JSON after it.
pub fn jsonpath(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (path, json) = text.split_once('\n').unwrap_or((text, "{}"));
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    if let Ok(path) = Path::parse(path) {
        let _ = path.evaluate(&value);
    }
}
