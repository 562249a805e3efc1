//! JSON merge patch (RFC 7396), as the API server reads it.

use serde_json::{Map, Value};

use super::discard_nulls;
use crate::status::Status;

/// Applies a merge patch to an object.
///
/// One rule goes beyond the RFC, as in Kubernetes: where the patch puts something new, its nulls
/// are dropped inside lists too.
pub fn apply(original: &Value, patch: &Value) -> Result<Value, Status> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(Status::bad_request("error decoding patch: a merge patch must be a JSON object"));
    };
    let mut result = original.clone();
    merge(&mut result, patch);
    Ok(Value::Object(result))
}

fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(key), value) {
            (_, Value::Null) => {
                target.remove(key);
            }
            (Some(Value::Object(current)), Value::Object(changes)) => merge(current, changes),
            (Some(Value::Object(_)), replacement) => {
                target.insert(key.clone(), replacement.clone());
            }
            (_, replacement) => {
                let mut replacement = replacement.clone();
                discard_nulls(&mut replacement);
                target.insert(key.clone(), replacement);
            }
        }
    }
}

/// The smallest merge patch that makes `target` out of `original`.
///
/// A merge patch cannot express a `null` inside `target`: it would delete instead.
pub fn diff(original: &Value, target: &Value) -> Value {
    let (Value::Object(original), Value::Object(target)) = (original, target) else {
        return target.clone();
    };
    let mut patch = Map::new();
    for key in original.keys().filter(|key| !target.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, wanted) in target {
        match original.get(key) {
            Some(current) if current == wanted => {}
            Some(current @ Value::Object(_)) if wanted.is_object() => {
                patch.insert(key.clone(), diff(current, wanted));
            }
            _ => {
                patch.insert(key.clone(), wanted.clone());
            }
        }
    }
    Value::Object(patch)
}
