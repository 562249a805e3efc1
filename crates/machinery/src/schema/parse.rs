//! Reading a schema from `openAPIV3Schema`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Additional, ListType, Rule, Schema, Type, structural, validate_at};
use crate::field::{self, Path};
use crate::status::Cause;

impl Schema {
    /// Reads a CRD's `openAPIV3Schema`. Refuses what is not structural, with the causes that the API
    /// server gives, on paths below `openAPIV3Schema`.
    pub fn from_json_schema(schema: &Value) -> Result<Schema, Vec<Cause>> {
        Self::from_json_schema_at(schema, &Path::new("openAPIV3Schema"))
    }

    /// As [`Schema::from_json_schema`], with the path that causes should name.
    pub fn from_json_schema_at(schema: &Value, path: &Path<'_>) -> Result<Schema, Vec<Cause>> {
        let unsupported = structural::unsupported(schema);
        let mut causes = if unsupported.is_some() { Vec::new() } else { structural::check(schema, path) };
        let parsed = Schema::of_checked(schema);
        if unsupported.is_none() && causes.is_empty() {
            causes = check_defaults(&parsed, path);
        }
        causes.extend(structural::check_openapi(schema, path));
        if causes.is_empty()
            && let Some(detail) = unsupported
        {
            causes.push(field::invalid_text(path, "", &detail));
        }
        if causes.is_empty() { Ok(parsed) } else { Err(causes) }
    }

    /// Reads a schema that [`Schema::from_json_schema`] has accepted before.
    pub fn of_checked(schema: &Value) -> Schema {
        let mut root = parse(schema);
        describe_resource(&mut root);
        root
    }
}

fn parse(schema: &Value) -> Schema {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let size = |key: &str| schema.get(key).and_then(Value::as_u64);
    let branches = |key: &str| {
        schema.get(key).and_then(Value::as_array).map_or_else(Vec::new, |all| all.iter().map(parse).collect())
    };
    let mut parsed = Schema {
        description: text("description"),
        value_type: value_type(schema),
        nullable: flag("nullable"),
        default: schema.get("default").filter(|value| !value.is_null()).cloned(),
        properties: properties(schema),
        additional: additional(schema),
        required: texts(schema, "required"),
        items: schema.get("items").filter(|items| items.is_object()).map(|items| Arc::new(parse(items))),
        preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag("x-kubernetes-embedded-resource"),
        list_type: list_type(schema),
        list_type_given: schema.get("x-kubernetes-list-type").is_some(),
        atomic_map: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        rules: schema
            .get("x-kubernetes-validations")
            .and_then(Value::as_array)
            .map_or_else(Vec::new, |all| all.iter().map(rule).collect()),
        enumeration: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        format: text("format"),
        pattern: text("pattern"),
        minimum: number("minimum"),
        maximum: number("maximum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: size("minLength"),
        max_length: size("maxLength"),
        min_items: size("minItems"),
        max_items: size("maxItems"),
        unique_items: flag("uniqueItems"),
        min_properties: size("minProperties"),
        max_properties: size("maxProperties"),
        all_of: branches("allOf"),
        any_of: branches("anyOf"),
        one_of: branches("oneOf"),
        not: schema.get("not").filter(|not| not.is_object()).map(|not| Box::new(parse(not))),
        ..Schema::default()
    };
    if parsed.embedded_resource {
        describe_resource(&mut parsed);
    }
    parsed
}

/// A resource has a type and metadata whether its schema says so or not. What the schema asks of
/// `metadata.name` and `metadata.generateName` is kept.
fn describe_resource(schema: &mut Schema) {
    for (name, words) in [
        ("apiVersion", "The version of the API that this object is written in, as group/version."),
        ("kind", "What kind of object this is."),
    ] {
        let given = schema.properties.remove(name);
        let mut property =
            given.map_or_else(|| Schema { value_type: Type::String, ..Schema::default() }, Arc::unwrap_or_clone);
        property.description.get_or_insert_with(|| words.to_owned());
        schema.properties.insert(name.to_owned(), Arc::new(property));
    }
    let mut metadata = (*crate::builtin::object_meta()).clone();
    if let Some(given) = schema.properties.get("metadata") {
        if given.description.is_some() {
            metadata.description.clone_from(&given.description);
        }
        for name in ["name", "generateName"] {
            if let Some(property) = given.properties.get(name) {
                metadata.properties.insert(name.to_owned(), property.clone());
            }
        }
    }
    schema.properties.insert("metadata".to_owned(), Arc::new(metadata));
}

fn value_type(schema: &Value) -> Type {
    if schema.get("x-kubernetes-int-or-string").and_then(Value::as_bool) == Some(true) {
        return Type::IntOrString;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    }
}

fn properties(schema: &Value) -> BTreeMap<String, Arc<Schema>> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return BTreeMap::new() };
    properties.iter().map(|(name, property)| (name.clone(), Arc::new(parse(property)))).collect()
}

fn additional(schema: &Value) -> Option<Additional> {
    match schema.get("additionalProperties")? {
        Value::Object(other) => Some(Additional::Schema(Arc::new(parse(&Value::Object(other.clone()))))),
        Value::Bool(true) => Some(Additional::Anything),
        _ => None,
    }
}

fn list_type(schema: &Value) -> ListType {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(texts(schema, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

fn texts(schema: &Value, key: &str) -> Vec<String> {
    let items = schema.get(key).and_then(Value::as_array);
    items.map_or_else(Vec::new, |all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn rule(rule: &Value) -> Rule {
    let empty = Map::new();
    let rule = rule.as_object().unwrap_or(&empty);
    let text = |key: &str| rule.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    Rule {
        rule: text("rule").unwrap_or_default(),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: text("reason"),
        field_path: text("fieldPath"),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
    }
}

/// Defaults must themselves be valid and name no unknown fields.
fn check_defaults(schema: &Schema, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(default) = &schema.default {
        let path = path.child("default");
        let mut pruned = default.clone();
        super::prune_value(schema, &mut pruned);
        if pruned != *default {
            causes.push(field::invalid(&path, default, "must not have unknown fields"));
        }
        let embedded = super::validate_embedded(schema, default, &path);
        causes.extend(if embedded.is_empty() { validate_at(schema, default, &path) } else { embedded });
    }
    if let Some(items) = &schema.items {
        causes.extend(check_defaults(items, &path.child("items")));
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        causes.extend(check_defaults(property, &properties.key(name)));
    }
    causes
}
