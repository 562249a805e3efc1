//! Embedded resources: objects inside objects, with their own apiVersion, kind and metadata.

use serde_json::Value;

use super::{Additional, Schema};
use crate::field::{self, Path};
use crate::meta;
use crate::status::Cause;

/// Checks type and metadata of every node that the schema marks `x-kubernetes-embedded-resource`.
pub fn validate_embedded(schema: &Schema, value: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, value, path, &mut causes);
    causes
}

fn walk(schema: &Schema, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let schema = schema.resolve();
    match value {
        Value::Object(map) => {
            if schema.embedded_resource {
                check(value, path, causes);
            }
            for (key, child) in map {
                if let Some(property) = schema.properties.get(key) {
                    walk(property, child, &path.child(key), causes);
                } else if let Some(Additional::Schema(other)) = &schema.additional {
                    walk(other, child, &path.key(key), causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk(item_schema, item, &path.index(index), causes);
            }
        }
        _ => {}
    }
}

fn check(object: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let version_path = path.child("apiVersion");
    match object.get("apiVersion") {
        None => causes.push(field::required(&version_path, "")),
        Some(Value::String(version)) if version.is_empty() => {
            causes.push(field::invalid_text(&version_path, version, "must not be empty"));
        }
        Some(Value::String(version)) if version.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {version}");
            causes.push(field::invalid_text(&version_path, version, &detail));
        }
        Some(Value::String(_)) => {}
        Some(other) => causes.push(field::invalid(&version_path, other, "must be a string")),
    }
    let kind_path = path.child("kind");
    match object.get("kind") {
        None => causes.push(field::required(&kind_path, "")),
        Some(Value::String(kind)) if kind.is_empty() => {
            causes.push(field::invalid_text(&kind_path, kind, "must not be empty"));
        }
        Some(Value::String(kind)) => {
            let problems = meta::names::dns1035_label(&kind.to_lowercase());
            if !problems.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
                causes.push(field::invalid_text(&kind_path, kind, &detail));
            }
        }
        Some(other) => causes.push(field::invalid(&kind_path, other, "must be a string")),
    }
    if let Some(metadata) = object.get("metadata") {
        causes.extend(meta::validate_embedded(metadata, &path.child("metadata")));
    }
}
