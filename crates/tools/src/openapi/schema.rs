//! Schemas of a document, made to stand alone: what they refer to goes with them, by reference, so that a schema may
//! contain itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::Problem;
use crate::found::{MOST_SCHEMA, weight};

/// Keywords whose value is a schema, or a list of them.
const ONE: &[&str] = &[
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a map of schemas.
const MANY: &[&str] = &["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
/// Words of OpenAPI that say nothing about which values fit.
const SILENT: &[&str] = &["discriminator", "example", "examples", "externalDocs", "nullable", "xml"];

/// A schema as JSON Schema says it, and the places in the document that it refers to.
struct Part {
    schema: Value,
    refers_to: BTreeSet<String>,
    weight: usize,
}

/// Takes schemas out of a document.
pub(super) struct Schemas<'a> {
    document: &'a Value,
    known: HashMap<String, Part>,
}

impl<'a> Schemas<'a> {
    pub(super) fn of(document: &'a Value) -> Self {
        Self { document, known: HashMap::new() }
    }

    /// A schema with everything that it refers to.
    pub(super) fn whole(&mut self, mut schema: Value) -> Result<Value, Problem> {
        let mut wanted = BTreeSet::new();
        convert(&mut schema, &mut wanted);
        let mut total = weight(&schema);
        let mut parts = BTreeMap::new();
        let mut next: Vec<String> = wanted.into_iter().collect();
        while let Some(pointer) = next.pop() {
            if parts.contains_key(&key(&pointer)) {
                continue;
            }
            let part = self.part(&pointer)?;
            total += part.weight;
            if total > MOST_SCHEMA {
                let message = format!("its schemas take more than {} KiB", MOST_SCHEMA >> 10);
                return Err(Problem::new("SchemaTooLarge", message));
            }
            next.extend(part.refers_to.iter().cloned());
            parts.insert(key(&pointer), part.schema.clone());
        }
        if !parts.is_empty() {
            schema["$defs"] = parts.into_iter().collect::<Map<_, _>>().into();
        }
        Ok(schema)
    }

    fn part(&mut self, pointer: &str) -> Result<&Part, Problem> {
        if !self.known.contains_key(pointer) {
            let found = self.document.pointer(pointer);
            let missing = || Problem::new("InvalidSchema", format!("the document has no #{pointer}"));
            let mut schema = found.cloned().ok_or_else(missing)?;
            let mut refers_to = BTreeSet::new();
            convert(&mut schema, &mut refers_to);
            let weight = weight(&schema);
            self.known.insert(pointer.to_owned(), Part { schema, refers_to, weight });
        }
        Ok(&self.known[pointer])
    }
}

/// What a place in the document is called among the definitions.
fn key(pointer: &str) -> String {
    pointer.strip_prefix("/components/schemas/").unwrap_or(pointer).replace(['/', '~'], "_")
}

/// Makes JSON Schema of what OpenAPI 3.0 says its own way, and lets references point to definitions.
fn convert(schema: &mut Value, refers_to: &mut BTreeSet<String>) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(pointer) = object.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#')) {
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy().into_owned();
        if pointer.starts_with('/') {
            object["$ref"] = format!("#/$defs/{}", key(&pointer)).into();
            refers_to.insert(pointer);
        }
    }
    let nullable = object.get("nullable") == Some(&Value::Bool(true));
    for word in SILENT {
        object.remove(*word);
    }
    if nullable {
        allow_null(object);
    }
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match object.get(exclusive) {
            Some(Value::Bool(true)) => {
                let limit = object.remove(bound).unwrap_or(Value::Null);
                object.remove(exclusive);
                if limit.is_number() {
                    object.insert(exclusive.into(), limit);
                }
            }
            Some(Value::Bool(false)) => drop(object.remove(exclusive)),
            _ => {}
        }
    }
    for (word, value) in object.iter_mut() {
        if ONE.contains(&word.as_str()) {
            match value {
                Value::Array(several) => several.iter_mut().for_each(|one| convert(one, refers_to)),
                one => convert(one, refers_to),
            }
        } else if MANY.contains(&word.as_str())
            && let Some(many) = value.as_object_mut()
        {
            many.values_mut().for_each(|one| convert(one, refers_to));
        }
    }
}

fn allow_null(object: &mut Map<String, Value>) {
    if let Some(list) = object.get_mut("enum").and_then(Value::as_array_mut)
        && !list.contains(&Value::Null)
    {
        list.push(Value::Null);
    }
    match object.get("type").cloned() {
        Some(Value::String(one)) => drop(object.insert("type".into(), json!([one, "null"]))),
        Some(_) => {}
        None => {
            let inner = Value::Object(std::mem::take(object));
            object.insert("anyOf".into(), json!([inner, { "type": "null" }]));
        }
    }
}

#[cfg(test)]
mod tests {
    use api::omnia::tools::input_schema;

    use super::*;

    fn whole(document: &Value, schema: Value) -> Result<Value, Problem> {
        Schemas::of(document).whole(schema)
    }

    #[test]
    fn a_schema_that_contains_itself_stays_finite() {
        let document = json!({ "components": { "schemas": {
            "Node": { "type": "object", "properties": { "next": { "$ref": "#/components/schemas/Node" }, "value": { "$ref": "#/components/schemas/Leaf" } } },
            "Leaf": { "type": "integer" }, "Other": { "type": "string" } } } });
        let schema = whole(&document, json!({ "$ref": "#/components/schemas/Node" })).expect("a schema");
        assert_eq!(schema["$defs"].as_object().map(Map::len), Some(2), "{schema}");
        let schema = input_schema(&schema).expect("a schema");
        assert!(schema.is_valid(&json!({ "next": { "next": { "value": 1 } } })));
        assert!(!schema.is_valid(&json!({ "next": { "next": { "value": "x" } } })));
    }

    #[test]
    fn old_words_are_translated() {
        let old = json!({ "type": "object", "properties": {
            "a": { "type": "integer", "nullable": true, "minimum": 1, "exclusiveMinimum": true },
            "nullable": { "type": "string", "example": "x" } } });
        let schema = whole(&Value::Null, old).expect("a schema");
        assert_eq!(schema["properties"]["a"], json!({ "type": ["integer", "null"], "exclusiveMinimum": 1 }));
        assert_eq!(schema["properties"]["nullable"], json!({ "type": "string" }), "a property, not the word");
    }

    #[test]
    fn what_is_missing_or_too_large_is_said() {
        let reason = |document: &Value| {
            whole(document, json!({ "$ref": "#/components/schemas/A" })).expect_err("a problem").reason
        };
        assert_eq!(reason(&json!({})), "InvalidSchema");
        let big = json!({ "components": { "schemas": { "A": { "description": "x".repeat(MOST_SCHEMA) } } } });
        assert_eq!(reason(&big), "SchemaTooLarge");
    }
}
