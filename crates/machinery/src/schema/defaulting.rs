//! Defaults from the schema, and the nulls that stand in their way.

use serde_json::Value;

use super::{Additional, Schema};

/// Fills in the defaults that `schema` gives. A `null` where null is no value counts as absent.
/// Defaulting twice changes nothing more.
pub fn default(schema: &Schema, value: &mut Value) {
    let schema = schema.resolve();
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                if map.get(name).is_none_or(|present| present.is_null() && !property.nullable) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (key, child) in map.iter_mut() {
                if let Some(property) = schema.properties.get(key) {
                    self::default(property, child);
                } else if let Some(Additional::Schema(other)) = &schema.additional {
                    replace_null(other, child);
                    self::default(other, child);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else { return };
            for item in items {
                replace_null(item_schema, item);
                self::default(item_schema, item);
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

/// Drops object fields that are `null` where null is no value and no default replaces it. The API
/// server does this to every custom resource before [`default`].
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    let schema = schema.resolve();
    match value {
        Value::Object(map) => map.retain(|key, child| {
            let Some(child_schema) = schema.field(key) else { return true };
            if child.is_null() && !child_schema.nullable && child_schema.default.is_none() {
                return false;
            }
            drop_nulls(child_schema, child);
            true
        }),
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else { return };
            for item in items {
                drop_nulls(item_schema, item);
            }
        }
        _ => {}
    }
}
