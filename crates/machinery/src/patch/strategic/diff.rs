//! The patch that makes one object out of another.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{DELETE_FROM_PRIMITIVE_LIST, DIRECTIVE, Object, RETAIN_KEYS, SET_ELEMENT_ORDER, strategy};
use crate::schema::Schema;

/// A strategic merge patch from `original` to `target`. Neither may hold `null`, and lists that
/// merge must hold each key once: a patch could not say otherwise.
pub fn diff(schema: &Schema, original: &Value, target: &Value) -> Value {
    match (original, target) {
        (Value::Object(original), Value::Object(target)) => Value::Object(objects(original, target, Some(schema))),
        _ => target.clone(),
    }
}

fn objects(original: &Object, target: &Object, schema: Option<&Schema>) -> Object {
    let mut patch = Map::new();
    for key in original.keys().filter(|key| !target.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, wanted) in target {
        let field = schema.and_then(|schema| schema.field(key));
        match (original.get(key), wanted) {
            (Some(current), wanted) if current == wanted => {}
            (Some(Value::Object(current)), Value::Object(wanted)) => {
                patch.insert(key.clone(), Value::Object(objects(current, wanted, field)));
            }
            (Some(Value::Array(current)), Value::Array(wanted)) if strategy(field).merge && !current.is_empty() => {
                lists(&mut patch, key, current, wanted, field);
            }
            _ => {
                patch.insert(key.clone(), wanted.clone());
            }
        }
    }
    if strategy(schema).retain_keys && !patch.is_empty() {
        patch.insert(RETAIN_KEYS.to_owned(), target.keys().cloned().collect());
    }
    patch
}

fn lists(patch: &mut Object, name: &str, original: &[Value], target: &[Value], schema: Option<&Schema>) {
    let strategy = strategy(schema);
    let Some(key) = &strategy.merge_key else {
        scalars(patch, name, original, target);
        return;
    };
    let items = schema.and_then(|schema| schema.items.as_deref());
    let before: HashMap<String, &Value> = original.iter().map(|item| (item[key].to_string(), item)).collect();
    let kept: HashSet<String> = target.iter().map(|item| item[key].to_string()).collect();
    let mut changes = Vec::new();
    for wanted in target {
        match before.get(&wanted[key].to_string()) {
            Some(current) if *current == wanted => {}
            Some(Value::Object(current)) => {
                let mut change = objects(current, wanted.as_object().unwrap_or(&Map::new()), items);
                if strategy.retain_keys {
                    change.insert(
                        RETAIN_KEYS.to_owned(),
                        wanted.as_object().into_iter().flat_map(Map::keys).cloned().collect(),
                    );
                }
                change.insert(key.clone(), wanted[key].clone());
                changes.push(Value::Object(change));
            }
            _ => changes.push(wanted.clone()),
        }
    }
    for item in original.iter().filter(|item| !kept.contains(&item[key].to_string())) {
        changes.push(json!({ key: item[key], DIRECTIVE: "delete" }));
    }
    patch.insert(name.to_owned(), Value::Array(changes));
    let order = target.iter().map(|item| json!({ key: item[key] })).collect();
    patch.insert(format!("{SET_ELEMENT_ORDER}{name}"), order);
}

fn scalars(patch: &mut Object, name: &str, original: &[Value], target: &[Value]) {
    let added: Vec<Value> = target.iter().filter(|item| !original.contains(item)).cloned().collect();
    let removed: Vec<Value> = original.iter().filter(|item| !target.contains(item)).cloned().collect();
    if !added.is_empty() {
        patch.insert(name.to_owned(), Value::Array(added));
    }
    if !removed.is_empty() {
        patch.insert(format!("{DELETE_FROM_PRIMITIVE_LIST}{name}"), Value::Array(removed));
    }
    patch.insert(format!("{SET_ELEMENT_ORDER}{name}"), Value::Array(target.to_vec()));
}
