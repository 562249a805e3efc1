//! The OpenAPI document, made from the routes and the schemas of the custom resources.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::app;
use crate::chat::Said;
use crate::kinds::KINDS;
use crate::routes::{self, Answer, Operation};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| describe(&app::operations()));

/// OpenAPI 3.1.
pub fn document() -> &'static Value {
    &DOCUMENT
}

fn describe(operations: &[Operation]) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        paths.entry(operation.path.as_str()).or_insert_with(|| json!({}))[operation.method] = describe_one(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Orrery", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}, "session": {"type": "apiKey", "in": "cookie", "name": "orrery_session"}},
        },
        "security": [{"bearer": []}, {"session": []}],
    })
}

fn describe_one(operation: &Operation) -> Value {
    let in_path = operation.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}))
        .chain(operation.query.iter().cloned())
        .collect();
    let (status, answer) = answer(operation);
    let mut described = json!({
        "operationId": identifier(operation),
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": parameters,
        "responses": {
            status: answer,
            "default": {"description": "Refused", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
        },
    });
    if let Some(kind) = operation.body {
        let schema = json!({"schema": {"$ref": format!("#/components/schemas/{kind}")}});
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": schema, "application/yaml": schema}});
    }
    if operation.open {
        described["security"] = json!([]);
    }
    described
}

fn answer(operation: &Operation) -> (&'static str, Value) {
    let object = json!({"schema": {"type": "object"}});
    let content = |content: Value| json!({"description": "Done", "content": content});
    match operation.answer {
        Answer::Object => ("2XX", content(json!({"application/json": object}))),
        Answer::View(kind) => ("2XX", content(json!({"application/json": {"schema": view(kind)}}))),
        Answer::Either(kind) => {
            let (view, whole) = (json!({"schema": view(kind)}), json!({"schema": whole(kind)}));
            ("2XX", content(json!({"application/json": view, "application/yaml": whole})))
        }
        Answer::Page(key, kind) => {
            let page = json!({
                "type": "object",
                "required": [key, "total", "pagination"],
                "properties": {
                    key: {"type": "array", "items": view(kind)},
                    "total": {"type": "integer"},
                    "pagination": {"$ref": "#/components/schemas/Pagination"},
                },
            });
            ("2XX", content(json!({"application/json": {"schema": page}})))
        }
        Answer::Events => ("200", content(json!({"text/event-stream": {"schema": {"type": "string"}}}))),
        Answer::Text => ("200", content(json!({"text/plain": {"schema": {"type": "string"}}}))),
        Answer::Socket => (
            "101",
            json!({"description": "A WebSocket: binary frames are the terminal's bytes, text frames {\"type\":\"resize\",\"cols\":80,\"rows\":24}"}),
        ),
        Answer::Nothing => ("204", json!({"description": "Done"})),
    }
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// The whole object of a kind; one that is kept in another's objects has no schema of its own.
fn whole(kind: &str) -> Value {
    let kept = KINDS.iter().any(|row| row.name == kind && row.kept_in.is_some());
    if kept { json!({"type": "object"}) } else { reference(kind) }
}

/// The view of a kind; a kind that has none is shown whole.
fn view(kind: &str) -> Value {
    let has_view = KINDS.iter().any(|row| row.name == kind && row.shape.is_some());
    if has_view { reference(&format!("{kind}View")) } else { reference(kind) }
}

/// `get-namespaces-tasks-name-logs`: stable, and unique because path and method are.
fn identifier(operation: &Operation) -> String {
    let path = operation.path.trim_start_matches("/api/v1").replace(['{', '}'], "");
    format!("{}{}", operation.method, path.replace('/', "-"))
}

fn schemas() -> Map<String, Value> {
    let number = json!({"type": "integer"});
    let mut schemas = Map::new();
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "required": ["error", "message", "code"],
            "properties": {
                "error": {"type": "string", "description": "A stable word for programs"},
                "message": {"type": "string", "description": "What happened and what to do, for people"},
                "code": {"type": "integer", "description": "The HTTP status"},
                "details": {"type": "object", "description": "Which field, in the words of the Kubernetes API"},
            },
        }),
    );
    schemas.insert(
        "Pagination".to_owned(),
        json!({
            "type": "object",
            "properties": {"limit": number, "offset": number, "totalCount": number, "hasMore": {"type": "boolean"}},
        }),
    );
    let text = json!({"type": "string"});
    let condition = json!({
        "type": text, "status": {"type": "string", "enum": ["True", "False", "Unknown"]}, "reason": text, "message": text,
        "lastTransitionTime": text,
    });
    schemas.insert(
        "Condition".to_owned(),
        json!({"type": "object", "required": ["type", "status"], "properties": condition}),
    );
    for kind in KINDS {
        if let Some(shape) = kind.shape {
            schemas.insert(format!("{}View", kind.name), shape.schema(kind.name));
        }
    }
    schemas.insert("Chat".to_owned(), routes::schema::<Said>());
    for definition in api::crds() {
        let version = &definition.spec.versions[0];
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default();
        schemas.insert(definition.spec.names.kind, schema);
    }
    schemas
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let text = document().to_string();
        for (at, _) in text.match_indices("\"$ref\":\"") {
            let path = text[at + 8..].split('"').next().expect("a string ends");
            let found = path.strip_prefix('#').and_then(|pointer| document().pointer(pointer));
            assert!(found.is_some(), "{path}");
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let operations = app::operations();
        let names: BTreeSet<String> = operations.iter().map(identifier).collect();
        assert_eq!(names.len(), operations.len());
    }
}
