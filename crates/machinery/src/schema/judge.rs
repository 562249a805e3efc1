//! Everything a schema asks of an object, in one call.

use serde_json::Value;

use super::rules::{self, Compiled};
use super::{Schema, validate, validate_at, validate_embedded, validate_lists, validate_update};
use crate::field::Path;
use crate::status::Cause;

/// Checks a custom resource: values, embedded resources, list keys, then rules. On an update, what was
/// wrong before and did not change is let through.
pub fn judge(schema: &Schema, compiled: Option<&Compiled>, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let causes = match old {
        Some(old) => validate_update(schema, object, old),
        None => validate(schema, object),
    };
    judge_further(causes, schema, compiled, object, old)
}

/// As [`judge`], for a write through `/status`: only status is new, and the words speak of it alone.
pub fn judge_status(schema: &Schema, compiled: Option<&Compiled>, object: &Value, old: &Value) -> Vec<Cause> {
    let causes = match (schema.field("status"), object.get("status")) {
        (Some(part), Some(status)) if old.get("status") != Some(status) => {
            validate_at(part, status, &Path::new("status"))
        }
        _ => Vec::new(),
    };
    judge_further(causes, schema, compiled, object, Some(old))
}

fn judge_further(
    mut causes: Vec<Cause>,
    schema: &Schema,
    compiled: Option<&Compiled>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
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
