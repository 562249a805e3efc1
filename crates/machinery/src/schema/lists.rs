//! Uniqueness in lists: items of a `set`, keys of a `map`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Additional, ListType, Schema};
use crate::field::{self, Path};
use crate::status::Cause;

/// Checks `x-kubernetes-list-type: set | map` everywhere in `value`.
pub fn validate_lists(schema: &Schema, value: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, value, path, &mut causes);
    causes
}

fn walk(schema: &Schema, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let schema = schema.resolve();
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                if let Some(property) = schema.properties.get(key) {
                    walk(property, child, &path.child(key), causes);
                } else if let Some(Additional::Schema(other)) = &schema.additional {
                    walk(other, child, &path.key(key), causes);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => {
                    for index in repeated(items.iter().map(field::json)) {
                        causes.push(field::duplicate(&path.index(index), &items[index]));
                    }
                }
                ListType::Map(keys) => check_keys(keys, items, path, causes),
            }
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    walk(item_schema, item, &path.index(index), causes);
                }
            }
        }
        _ => {}
    }
}

fn check_keys(keys: &[String], items: &[Value], path: &Path<'_>, causes: &mut Vec<Cause>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        causes.push(field::invalid(&path.index(index), &items[index], detail));
        return;
    }
    let identities: Vec<Value> = items
        .iter()
        .map(|item| {
            let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
            Value::Object(present.collect::<Map<_, _>>())
        })
        .collect();
    for index in repeated(identities.iter().map(field::json)) {
        causes.push(field::duplicate(&path.index(index), &identities[index]));
    }
}

/// Indices at which a value occurs for the second time. Third and later ones are not reported again.
fn repeated(values: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut indices = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            indices.push(index);
        }
    }
    indices
}
