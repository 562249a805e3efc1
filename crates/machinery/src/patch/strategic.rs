//! Strategic merge patch: a merge patch that knows the schema.
//!
//! Lists whose schema says so merge by key instead of being replaced, and directives inside the
//! patch say what plain JSON cannot:
//!
//! | directive | where | meaning |
//! |---|---|---|
//! | `$patch: replace` | object | take the patch as it is |
//! | `$patch: delete` | object | leave nothing |
//! | `$patch: delete` | list item | drop the items with this key |
//! | `$patch: replace` | list item | drop everything the patch does not list |
//! | `$retainKeys: […]` | object | drop every other member |
//! | `$setElementOrder/F: […]` | beside list `F` | the order of the items |
//! | `$deleteFromPrimitiveList/F: […]` | beside list `F` of scalars | drop these |
//!
//! Only built-in kinds have strategies; custom resources refuse this patch type.

mod diff;
mod list;
mod order;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub use diff::diff;

use super::discard_nulls;
use crate::schema::{PatchStrategy, Schema};
use crate::status::Status;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of this schema.
pub fn apply(schema: &Schema, original: &Value, patch: &Value) -> Result<Value, Status> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(Status::bad_request("a strategic merge patch must be a JSON object"));
    };
    merge(original.clone(), patch.clone(), Some(schema)).map(Value::Object)
}

/// Merges two objects. Without a schema, objects merge and lists are replaced.
fn merge(mut original: Object, mut patch: Object, schema: Option<&Schema>) -> Result<Object, Status> {
    match patch.get(DIRECTIVE).map(directive).transpose()? {
        Some(Directive::Replace) => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(Directive::Delete) => return Ok(Object::new()),
        Some(Directive::Merge) => return Err(unknown_directive("merge")),
        None => {}
    }
    retain_keys(&mut original, &mut patch)?;
    list::merge_ordered(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
            list::delete_scalars(&mut original, list, &value)?;
            continue;
        }
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let field = schema.and_then(|schema| schema.field(&key));
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(current)), Value::Object(changes)) => {
                Some(Value::Object(merge(current, changes, field)?))
            }
            (Some(Value::Array(current)), Value::Array(changes)) if strategy(field).merge => {
                Some(Value::Array(list::merge(current, changes, field)?))
            }
            (Some(Value::Array(_)), changes @ Value::Array(_)) => Some(changes),
            (_, value) => without_directives(value),
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

/// What `$patch` may say.
enum Directive {
    Replace,
    Delete,
    Merge,
}

fn directive(value: &Value) -> Result<Directive, Status> {
    match value.as_str() {
        Some("replace") => Ok(Directive::Replace),
        Some("delete") => Ok(Directive::Delete),
        Some("merge") => Ok(Directive::Merge),
        _ => Err(unknown_directive(value)),
    }
}

fn unknown_directive(found: impl std::fmt::Display) -> Status {
    Status::bad_request(format!("unknown patch type: {found}: $patch is \"replace\" or \"delete\" here"))
}

fn strategy(schema: Option<&Schema>) -> PatchStrategy {
    schema.and_then(|schema| schema.patch.clone()).unwrap_or_default()
}

/// Obeys `$retainKeys`: everything the patch sets must be on the list, and what is not on the list goes.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let refused = || Status::bad_request("invalid patch format of retainKeys");
    let keys: BTreeSet<&str> = directive.as_array().ok_or_else(refused)?.iter().filter_map(Value::as_str).collect();
    let is_set = |(key, value): (&String, &Value)| {
        !value.is_null() && !key.starts_with(DELETE_FROM_PRIMITIVE_LIST) && !key.starts_with(SET_ELEMENT_ORDER)
    };
    if patch.iter().any(|member| is_set(member) && !keys.contains(member.0.as_str())) {
        return Err(refused());
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// What is left of a value that has nothing to merge with. `None` when it was itself a directive.
fn without_directives(mut value: Value) -> Option<Value> {
    discard_nulls(&mut value);
    strip_directives(value)
}

fn strip_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(key, _)| !is_directive(key));
            Some(Value::Object(kept.filter_map(|(key, value)| Some((key, strip_directives(value)?))).collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(strip_directives).collect())),
        scalar => Some(scalar),
    }
}

fn is_directive(key: &str) -> bool {
    key == RETAIN_KEYS || key.starts_with(SET_ELEMENT_ORDER) || key.starts_with(DELETE_FROM_PRIMITIVE_LIST)
}
