//! What makes a JSON schema structural, and what the API server asks of CRD schemas beside that.
//!
//! Works on the JSON itself: a read [`Schema`](super::Schema) has already forgotten what is forbidden.

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::field::{self, Path};
use crate::status::Cause;

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
    if let Err(error) = Regex::new(pattern) {
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

/// Rules that hold for every CRD schema, structural or not.
pub fn check_openapi(schema: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if flag(schema, "nullable") {
        causes.push(field::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    Openapi { defaults_forbidden: None, inside_meta: false }.node(schema, true, path, &mut causes);
    causes
}

#[derive(Clone, Copy)]
struct Openapi<'a> {
    /// Why defaults are not allowed here.
    defaults_forbidden: Option<&'a str>,
    inside_meta: bool,
}

impl Openapi<'_> {
    fn node(self, schema: &Value, is_root: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
        self.keywords(schema, path, causes);
        if flag(schema, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            causes.push(field::forbidden(&path.child("uniqueItems"), detail));
        }
        self.descend(schema, is_root, path, causes);
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            causes.push(field::invalid(&path, &Value::Bool(false), "must be true or undefined"));
        }
        map_type(schema, path, causes);
        list_type(schema, path, causes);
        list_map(schema, path, causes);
        rules(schema, path, causes);
    }

    fn keywords(self, schema: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
        let value_type = text(schema, "type");
        let known = ["array", "boolean", "integer", "number", "object", "string"];
        if !value_type.is_empty() && !known.contains(&value_type) {
            causes.push(field::not_supported(&path.child("type"), &value_type.into(), &known));
        }
        if let Some(reason) = self.defaults_forbidden
            && is_set(schema, "default")
        {
            causes.push(field::forbidden(&path.child("default"), &format!("must not be set {reason}")));
        }
        for keyword in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            if is_set(schema, keyword) {
                causes.push(field::forbidden(&path.child(keyword), &format!("{keyword} is not supported")));
            }
        }
        if value_type == "null" {
            causes.push(field::forbidden(
                &path.child("type"),
                "type cannot be set to null, use nullable as an alternative",
            ));
        }
        if schema.get("items").is_some_and(Value::is_array) {
            causes.push(field::forbidden(&path.child("items"), "items must be a schema object and not an array"));
        }
        if self.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
            let path = path.child("x-kubernetes-embedded-resource");
            causes.push(field::forbidden(&path, "must not be used inside of resource meta"));
        }
    }

    fn descend(self, schema: &Value, is_root: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
        if let Some(additional) = schema.get("additionalProperties") {
            let path = path.child("additionalProperties");
            if entries(schema, "properties").next().is_some() && additional != &Value::Bool(true) {
                causes.push(field::forbidden(&path, "additionalProperties and properties are mutual exclusive"));
            }
            let mut inner = self;
            if self.inside_meta {
                inner.defaults_forbidden = Some("inside additionalProperties applying to object metadata");
            }
            if additional.is_object() {
                inner.node(additional, false, &path, causes);
            }
        }
        let properties = path.child("properties");
        for (name, property) in entries(schema, "properties") {
            let reason = format!("in top-level {name}");
            let mut inner = Openapi { defaults_forbidden: self.defaults_forbidden, inside_meta: self.inside_meta };
            let is_resource = is_root || flag(schema, "x-kubernetes-embedded-resource");
            if is_resource && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
                inner.inside_meta = true;
                if is_root {
                    inner.defaults_forbidden = Some(&reason);
                }
            }
            inner.node(property, false, &properties.key(name), causes);
        }
        for key in ["not", "items"] {
            if let Some(inner) = schema.get(key).filter(|inner| inner.is_object()) {
                self.node(inner, false, &path.child(key), causes);
            }
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            let path = path.child(key);
            for (index, branch) in branches(schema, key).enumerate() {
                self.node(branch, false, &path.index(index), causes);
            }
        }
    }
}

fn map_type(schema: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let Some(map_type) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else { return };
    wrong_type(schema, "object", "must be object if x-kubernetes-map-type is specified", path, causes);
    let supported = ["atomic", "granular"];
    if !supported.contains(&map_type) {
        causes.push(field::not_supported(&path.child("x-kubernetes-map-type"), &map_type.into(), &supported));
    }
}

fn wrong_type(schema: &Value, wanted: &str, detail: &str, path: &Path<'_>, causes: &mut Vec<Cause>) -> bool {
    let path = path.child("type");
    match text(schema, "type") {
        found if found == wanted => return false,
        "" => causes.push(field::required(&path, detail)),
        other => causes.push(field::invalid_text(&path, other, detail)),
    }
    true
}

fn list_type(schema: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let type_path = path.child("x-kubernetes-list-type");
    if let Some(list_type) = list_type {
        let wrong = wrong_type(schema, "array", "must be array if x-kubernetes-list-type is specified", path, causes);
        if !wrong && list_type == "set" {
            set_items(schema, path, causes);
        }
        let supported = ["atomic", "set", "map"];
        if !supported.contains(&list_type) {
            causes.push(field::not_supported(&type_path, &list_type.into(), &supported));
        }
    }
    if is_set(schema, "x-kubernetes-list-map-keys") && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(match list_type {
            None => field::required(&type_path, detail),
            Some(other) => field::invalid_text(&type_path, other, detail),
        });
    }
}

fn set_items(schema: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let Some(items) = schema.get("items") else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let items_path = path.child("items");
    let item_list_type = items.get("x-kubernetes-list-type");
    match text(items, "type") {
        "array" if item_list_type.is_some_and(|list_type| list_type != "atomic") => {
            let value = item_list_type.cloned().unwrap_or_default();
            causes.push(field::invalid(&items_path.child("x-kubernetes-list-type"), &value, detail));
        }
        "object" if items.get("x-kubernetes-map-type").is_none_or(|map_type| map_type != "atomic") => {
            let value = item_list_type.cloned().unwrap_or_default();
            causes.push(field::invalid(&items_path.child("x-kubernetes-map-type"), &value, detail));
        }
        _ => {}
    }
}

fn list_map(schema: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    if list_type != "map" && list_type != "set" {
        return;
    }
    let items_path = path.child("items");
    let items = schema.get("items");
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let keys: Vec<&str> = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |keys| keys.iter().filter_map(Value::as_str).collect());
    if list_type == "map" {
        if keys.is_empty() {
            causes.push(field::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
        }
        match items {
            None => causes.push(field::required(&items_path, "must have a schema if x-kubernetes-list-type is map")),
            Some(items) if text(items, "type") != "object" => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                causes.push(field::invalid_text(&items_path.child("type"), text(items, "type"), detail));
            }
            Some(items) => list_map_keys(&keys, items, path, causes),
        }
    }
    let Some(items) = items else { return };
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(field::forbidden(&items_path.child("nullable"), &detail));
    }
    if list_type == "map" {
        list_map_key_presence(&keys, items, &items_path, causes);
    }
}

fn list_map_keys(keys: &[&str], items: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let items_path = path.child("items");
    let properties_path = items_path.child("properties");
    for (index, key) in keys.iter().enumerate() {
        match items.get("properties").and_then(|all| all.get(*key)) {
            Some(property) if ["array", "object"].contains(&text(property, "type")) => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(field::invalid_text(&properties_path.key(key).child("type"), text(items, "type"), detail));
            }
            Some(_) => {}
            None => {
                causes.push(field::invalid(&keys_path, &json!(keys), "entries must all be names of item properties"));
            }
        }
        if keys[..index].contains(key) {
            causes.push(field::invalid(&keys_path, &json!(keys), "must not contain duplicate entries"));
        }
    }
}

fn list_map_key_presence(keys: &[&str], items: &Value, items_path: &Path<'_>, causes: &mut Vec<Cause>) {
    let required = |key: &str| {
        items.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|name| name == key))
    };
    let properties = items_path.child("properties");
    for key in keys {
        let Some(property) = items.get("properties").and_then(|all| all.get(*key)) else { continue };
        let path = properties.key(key);
        if !required(key) && !is_set(property, "default") {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(field::required(&path.child("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(field::forbidden(&path.child("nullable"), detail));
        }
    }
}

/// The parts of a rule that are not CEL.
fn rules(schema: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let path = path.child("x-kubernetes-validations");
    for (index, rule) in branches(schema, "x-kubernetes-validations").enumerate() {
        let path = path.index(index);
        let message = text(rule, "message");
        let newlines = |text: &str| text.trim().contains(['\n', '\r']);
        if text(rule, "rule").trim().is_empty() {
            causes.push(field::required(&path.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            causes.push(field::invalid_text(&path.child("message"), message, "must be non-empty if specified"));
        } else if newlines(message) {
            causes.push(field::invalid_text(&path.child("message"), message, "must not contain line breaks"));
        } else if newlines(text(rule, "rule")) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            causes.push(field::required(&path.child("message"), detail));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            causes.push(field::required(&path.child("messageExpression"), detail));
        }
        let reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if let Some(reason) = rule.get("reason").and_then(Value::as_str)
            && !reasons.contains(&reason)
        {
            causes.push(field::not_supported(&path.child("reason"), &reason.into(), &reasons));
        }
        let field_path = text(rule, "fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            causes.push(field::invalid_text(&path.child("fieldPath"), field_path, "must be non-empty if specified"));
        }
        if field_path.contains(['\n', '\r']) {
            causes.push(field::invalid_text(&path.child("fieldPath"), field_path, "must not contain line breaks"));
        }
        if !field_path.is_empty() && !leads_to_field(schema, field_path) {
            causes.push(field::invalid_text(&path.child("fieldPath"), field_path, "must be a valid path"));
        }
    }
}

/// Whether a path such as `.a['b.c'].d` names a field that the schema describes.
fn leads_to_field(schema: &Value, path: &str) -> bool {
    let mut current = schema;
    let mut rest = path.trim();
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix("['") {
            let Some((key, after)) = quoted.split_once("']") else { return false };
            (name, rest) = (key, after);
        } else if let Some(dotted) = rest.strip_prefix('.') {
            let end = dotted.find(['.', '[']).unwrap_or(dotted.len());
            (name, rest) = (&dotted[..end], &dotted[end..]);
        } else {
            return false;
        }
        let additional = current.get("additionalProperties").filter(|other| other.is_object());
        match current.get("properties").map_or(additional, |properties| properties.get(name)) {
            Some(next) => current = next,
            None => return false,
        }
    }
    true
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
