//! Conditions of a status: one schema with our own words, one way to set them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{Schema, SchemaGenerator, json_schema};

/// The schema of a list of conditions, merged by type, as `kubectl wait` expects it.
pub(crate) fn list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One thing that is known about the object, and since when.",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "description": "What the condition is about, in CamelCase; a type appears at most once.",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether it holds: True, False or Unknown.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "A stable word for programs that says why the status is what it is.",
                },
                "message": {
                    "type": "string",
                    "maxLength": 32768,
                    "description": "A sentence for people: what happened, which field, what to do.",
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The generation of the object that this condition was computed from.",
                },
            },
        },
    })
}

/// Puts `condition` in the place of the one with the same type. The time of the last transition stays as it was when
/// the status did not change, so that writing the same knowledge twice changes nothing.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|known| known.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time.clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

/// The condition of this type, if it is there.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// A condition as seen at `now`.
pub fn new(
    type_: &str,
    holds: bool,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Condition {
    Condition {
        type_: type_.into(),
        status: if holds { "True" } else { "False" }.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: Time(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let at = |second| jiff::Timestamp::from_second(second).expect("a small number of seconds");
        let mut conditions = Vec::new();
        set(&mut conditions, new("Ready", false, "Starting", "", None, at(1)));
        set(&mut conditions, new("Ready", false, "Pulling", "", None, at(2)));
        assert_eq!((conditions[0].reason.as_str(), conditions[0].last_transition_time.0), ("Pulling", at(1)));
        set(&mut conditions, new("Ready", true, "Up", "", None, at(3)));
        assert_eq!(conditions[0].last_transition_time.0, at(3));
        assert_eq!(conditions.len(), 1);
    }
}
