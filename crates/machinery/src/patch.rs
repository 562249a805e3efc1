//! The three patch types of the API: JSON patch, JSON merge patch and strategic merge patch.
//!
//! Each module has `apply(…, patch)` and `diff(…)`, and `apply(original, diff(original, target))`
//! is `target`. Server-side apply is no patch in this sense; it lives in [`crate::apply`].

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

/// Drops `null` members of objects at any depth: a patch uses them to delete, and where nothing
/// is there to delete they mean nothing. Items of lists keep their place.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}
