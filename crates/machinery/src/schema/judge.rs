//! Everything a schema asks of an object, in one call.

use serde_json::Value;

use super::rules::{self, Compiled};
use super::{Schema, validate, validate_embedded, validate_lists, validate_update};
use crate::field::Path;
use crate::status::Cause;

/// Checks a custom resource: values, embedded resources, list keys, then rules. On an update, what was
/// wrong before and did not change is let through.
pub fn judge(schema: &Schema, compiled: Option<&Compiled>, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = match old {
        Some(old) => validate_update(schema, object, old),
        None => validate(schema, object),
    };
    causes.extend(validate_embedded(schema, object, &Path::ROOT));
    let was_valid = old.is_none_or(|old| validate_lists(schema, old, &Path::ROOT).is_empty());
    if was_valid {
        causes.extend(validate_lists(schema, object, &Path::ROOT));
    }
    if let Some(compiled) = compiled.filter(|compiled| !compiled.is_empty()) {
        match rules::blocked(&causes) {
            Some(blocked) => causes.push(blocked),
            None => causes.extend(compiled.check(object, old)),
        }
    }
    causes
}
