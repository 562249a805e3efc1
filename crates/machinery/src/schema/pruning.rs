//! Pruning: what the schema does not name is dropped, and the caller learns what.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Additional, Schema};

/// Drops every field of `object` that `schema` does not name. Returns the dropped paths, sorted, in the
/// form in which strict field validation prints them (`spec.containers[0].nam`).
///
/// The root of `object` is a resource: `apiVersion`, `kind` and `metadata` always stay, and `metadata`
/// is pruned as object metadata.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.node(Some(schema), object, true);
    pruner.dropped.sort();
    pruner.dropped
}

/// As [`prune`], for a value that is not a whole resource (a default, a subtree).
pub fn prune_value(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.node(Some(schema), value, false);
    pruner.dropped.sort();
    pruner.dropped
}

#[derive(Default)]
struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    fn node(&mut self, schema: Option<&Schema>, value: &mut Value, is_resource: bool) {
        let schema = schema.map(Schema::resolve);
        match value {
            Value::Object(map) => self.object(schema, map, is_resource),
            Value::Array(items) => self.list(schema, items),
            _ => {}
        }
    }

    fn object(&mut self, schema: Option<&Schema>, map: &mut Map<String, Value>, is_resource: bool) {
        let is_resource = is_resource || schema.is_some_and(|schema| schema.embedded_resource);
        map.retain(|key, value| {
            if is_resource && key == "metadata" {
                let meta = crate::builtin::object_meta();
                self.under(key, |pruner| pruner.node(Some(&meta), value, false));
                return true;
            }
            if is_resource && (key == "apiVersion" || key == "kind") {
                return true;
            }
            let Some(schema) = schema else {
                self.record(key);
                return false;
            };
            let child = match (schema.properties.get(key), &schema.additional) {
                (Some(property), _) | (None, Some(Additional::Schema(property))) => Some(&**property),
                // `additionalProperties: true` names every key but says nothing of the values, so
                // Kubernetes prunes what is inside them.
                (None, Some(Additional::Anything)) => None,
                (None, None) if schema.preserve_unknown_fields => return true,
                (None, None) => {
                    self.record(key);
                    return false;
                }
            };
            self.under(key, |pruner| pruner.node(child, value, false));
            true
        });
    }

    fn list(&mut self, schema: Option<&Schema>, items: &mut [Value]) {
        let item_schema = schema.and_then(|schema| schema.items.as_deref());
        if item_schema.is_none() && schema.is_some_and(|schema| schema.preserve_unknown_fields) {
            return;
        }
        for (index, item) in items.iter_mut().enumerate() {
            let length = self.path.len();
            let _ = write!(self.path, "[{index}]");
            self.node(item_schema, item, false);
            self.path.truncate(length);
        }
    }

    fn under(&mut self, key: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        walk(self);
        self.path.truncate(length);
    }

    fn record(&mut self, key: &str) {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        self.dropped.push(path);
    }
}
