//! What the API server asks of every CRD schema, structural or not: types, lists, maps, defaults and rules that fit together.

use serde_json::{Value, json};

use super::{branches, entries, flag, is_set, text};
use crate::field::{self, Path};
use crate::status::Cause;

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
