//! The schema of conditions, in our own words.

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
