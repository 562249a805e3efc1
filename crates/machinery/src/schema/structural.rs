//! What makes a JSON schema structural; what the API server asks of CRD schemas beside that is in `openapi`.
//!
//! Works on the JSON itself: a read [`Schema`](super::Schema) has already forgotten what is forbidden.

mod openapi;

use serde_json::{Map, Value, json};

use super::formats;
use crate::field::{self, Path};
use crate::status::Cause;

pub use openapi::check_openapi;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// A keyword that cannot be represented at all, anywhere in the schema.
pub fn unsupported(schema: &Value) -> Option<String> {
    for keyword in ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"] {
        if is_set(schema, keyword) {
            let name = keyword.strip_prefix("$s").map_or(keyword.to_owned(), |rest| format!("s{rest}"));
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned());
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    children(schema).find_map(unsupported)
}

fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let single = ["items", "not", "additionalProperties"]
        .into_iter()
        .filter_map(|key| schema.get(key))
        .filter(|v| v.is_object());
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| branches(schema, key));
    single.chain(lists).chain(entries(schema, "properties").map(|(_, property)| property))
}

/// The structural rules. Causes are sorted by text, as the API server does.
pub fn check(schema: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    invariants(schema, Level::Root, path, &mut causes);
    complete(schema, Some(schema), path, path, &mut causes);
    causes.sort_by_key(|cause| format!("{}: {}", cause.field, cause.message));
    causes
}

fn invariants(schema: &Value, level: Level, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let value_type = text(schema, "type");
    let items = path.child("items");
    match schema.get("items").filter(|items| items.is_object()) {
        Some(item) => invariants(item, Level::Item, &items, causes),
        None if value_type == "array" => causes.push(field::required(&items, "must be specified")),
        None => {}
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        invariants(property, Level::Field, &properties.key(name), causes);
    }
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if let Some(additional) = schema.get("additionalProperties") {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            causes.push(field::forbidden(&path, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &path, causes);
        }
        if embedded {
            causes.push(field::forbidden(&path, "must not be used if x-kubernetes-embedded-resource is set"));
        }
    }
    extensions(schema, path, causes);
    let skip_any_of = is_int_or_string(branches(schema, "anyOf"));
    let skip_all_of_any_of =
        branches(schema, "allOf").next().is_some_and(|first| is_int_or_string(branches(first, "anyOf")));
    value_validation(schema, skip_any_of, skip_all_of_any_of, path, causes);
    check_type(schema, level, path, causes);
    resource_fields(schema, level, path, causes);
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && !preserve && entries(schema, "properties").next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(field::required(&properties, detail));
    }
}

fn extensions(schema: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if flag(schema, "x-kubernetes-int-or-string") {
        for other in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if flag(schema, other) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                causes.push(field::invalid(&path.child(other), &Value::Bool(true), detail));
            }
        }
    }
}

fn check_type(schema: &Value, level: Level, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let value_type = text(schema, "type");
    let path = path.child("type");
    if flag(schema, "x-kubernetes-embedded-resource") && value_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(match value_type {
            "" => field::required(&path, detail),
            other => field::invalid_text(&path, other, detail),
        });
    } else if value_type.is_empty()
        && !flag(schema, "x-kubernetes-int-or-string")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
    {
        causes.push(field::required(
            &path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if level == Level::Root && !value_type.is_empty() && value_type != "object" {
        causes.push(field::invalid_text(&path, value_type, "must be object at the root"));
    }
}

/// `kind`, `apiVersion` and `metadata` of a resource may hardly be described.
fn resource_fields(schema: &Value, level: Level, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let is_resource = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    let property = |name: &str| schema.get("properties").and_then(|all| all.get(name));
    for name in ["kind", "apiVersion"] {
        if is_resource
            && let Some(property) = property(name)
            && text(property, "type") != "string"
        {
            causes.push(field::invalid_text(
                &properties.key(name).child("type"),
                text(property, "type"),
                "must be string",
            ));
        }
    }
    let Some(metadata) = property("metadata") else { return };
    let path = properties.key("metadata");
    if is_resource && text(metadata, "type") != "object" {
        causes.push(field::invalid_text(&path.child("type"), text(metadata, "type"), "must be object"));
    }
    if level == Level::Root && !only_names(metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(field::forbidden(&path, detail));
    }
}

fn only_names(metadata: &Value) -> bool {
    let Some(fields) = metadata.as_object() else { return true };
    fields.iter().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => {
            value.as_object().is_none_or(|all| all.keys().all(|name| name == "name" || name == "generateName"))
        }
        _ => !is_set(metadata, key),
    })
}

fn value_validation(schema: &Value, skip_any_of: bool, skip_first: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if !skip_any_of {
        nested_branches(schema, "anyOf", false, path, causes);
    }
    nested_branches(schema, "allOf", skip_first, path, causes);
    nested_branches(schema, "oneOf", false, path, causes);
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        nested(not, false, &path.child("not"), causes);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = formats::check_pattern(pattern) {
        let words = error.to_string();
        let reason = match words.lines().last().unwrap_or_default().trim_start_matches("error: ") {
            "unclosed group" => "missing closing )",
            "unopened group" => "unexpected )",
            "unclosed character class" => "missing closing ]",
            "repetition operator missing expression" => "missing argument to repetition operator",
            other => other,
        };
        let detail =
            format!("must be a valid regular expression, but isn't: error parsing regexp: {reason}: `{pattern}`");
        causes.push(field::invalid_text(&path.child("pattern"), pattern, &detail));
    }
}

fn nested_branches(schema: &Value, key: &str, skip_first_any_of: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let path = path.child(key);
    for (index, branch) in branches(schema, key).enumerate() {
        nested(branch, skip_first_any_of && index == 0, &path.index(index), causes);
    }
}

/// Inside `allOf`, `anyOf`, `oneOf` and `not` a schema may judge values but not describe them.
fn nested(schema: &Value, skip_any_of: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
    value_validation(schema, skip_any_of, false, path, causes);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        nested(items, false, &path.child("items"), causes);
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        nested(property, false, &properties.key(name), causes);
    }
    if schema.get("additionalProperties").is_some_and(|other| other != &Value::Bool(false)) {
        causes.push(field::forbidden(&path.child("additionalProperties"), "must be undefined to be structural"));
    }
    let forbidden = [
        ("type", "must be empty to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (keyword, detail) in forbidden {
        if is_set(schema, keyword) {
            causes.push(field::forbidden(&path.child(keyword), detail));
        }
    }
    if schema.get("properties").and_then(|all| all.get("metadata")).is_some() {
        causes.push(field::forbidden(&properties.key("metadata"), "must not be specified in a nested context"));
    }
}

/// What a nested schema speaks of must be described by the outer one.
fn complete(nested: &Value, outer: Option<&Value>, outer_path: &Path<'_>, path: &Path<'_>, causes: &mut Vec<Cause>) {
    for key in ["not", "allOf", "anyOf", "oneOf"] {
        let path = path.child(key);
        if key == "not" {
            if let Some(not) = nested.get("not").filter(|not| not.is_object()) {
                complete_branch(not, outer, outer_path, &path, causes);
            }
            continue;
        }
        for (index, branch) in branches(nested, key).enumerate() {
            complete_branch(branch, outer, outer_path, &path.index(index), causes);
        }
    }
}

fn complete_branch(
    branch: &Value,
    outer: Option<&Value>,
    outer_path: &Path<'_>,
    path: &Path<'_>,
    causes: &mut Vec<Cause>,
) {
    let Some(schema) = outer else {
        causes.push(field::required(outer_path, &format!("because it is defined in {path}")));
        return;
    };
    complete(branch, outer, outer_path, path, causes);
    if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
        complete_branch(
            items,
            schema.get("items").filter(|items| items.is_object()),
            &outer_path.child("items"),
            &path.child("items"),
            causes,
        );
    }
    let outer_properties = outer_path.child("properties");
    let properties = path.child("properties");
    for (name, property) in entries(branch, "properties") {
        let described = schema.get("properties").and_then(|all| all.get(name));
        complete_branch(property, described, &outer_properties.key(name), &properties.key(name), causes);
    }
}

fn is_int_or_string<'a>(any_of: impl Iterator<Item = &'a Value>) -> bool {
    let branches: Vec<&Value> = any_of.collect();
    branches == [&json!({"type": "integer"}), &json!({"type": "string"})]
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn branches<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn entries<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    schema.get(key).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Present and not the zero value of its type.
fn is_set(schema: &Value, key: &str) -> bool {
    match schema.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(map)) => !map.is_empty() || key == "default",
        Some(_) => true,
    }
}
