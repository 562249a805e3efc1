//! The OpenAPI document, made from the table of kinds and the schemas of the custom resources.

use serde_json::{Map, Value, json};

use crate::kinds::KINDS;

/// OpenAPI 3.1.
pub fn document() -> Value {
    let mut paths = Map::new();
    for (path, method, summary) in SINGLE_ROUTES {
        operation(&mut paths, path, method, summary, None);
    }
    for kind in KINDS {
        let (plural, name) = (kind.plural, kind.name);
        let collection = format!("/api/v1/namespaces/{{namespace}}/{plural}");
        let object = format!("{collection}/{{name}}");
        operation(
            &mut paths,
            &format!("/api/v1/{plural}"),
            "get",
            &format!("List every {name} that you can see"),
            None,
        );
        operation(&mut paths, &collection, "get", &format!("List each {name} of a namespace"), None);
        operation(&mut paths, &collection, "post", &format!("Create a {name}"), Some(name));
        operation(&mut paths, &object, "get", &format!("Get a {name}; with output=yaml, the whole object"), None);
        operation(&mut paths, &object, "put", &format!("Replace the spec of a {name}"), Some(name));
        operation(&mut paths, &format!("{object}/events"), "get", &format!("What happened to a {name} lately"), None);
        operation(&mut paths, &object, "delete", &format!("Delete a {name} and what belongs to it"), None);
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Orrery", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}, "session": {"type": "apiKey", "in": "cookie", "name": "orrery_session"}},
        },
        "security": [{"bearer": []}, {"session": []}],
    })
}

const SINGLE_ROUTES: &[(&str, &str, &str)] = &[
    ("/health", "get", "Whether the server runs"),
    ("/ready", "get", "Whether the Kubernetes API answers"),
    ("/api/v1/info", "get", "The version"),
    ("/api/v1/whoami", "get", "Who you are"),
    ("/api/v1/namespaces", "get", "Namespaces that you can see"),
    ("/api/v1/stream", "get", "Changes of every kind as server-sent events, resumable by Last-Event-ID"),
    ("/api/v1/config", "get", "The cluster's settings"),
    ("/api/v1/config", "put", "Replace the cluster's settings"),
    ("/api/v1/namespaces/{namespace}/tasks/{name}/stop", "post", "Stop a Task"),
    (
        "/api/v1/namespaces/{namespace}/tasks/{name}/logs",
        "get",
        "A Task's log as server-sent events, resumable by Last-Event-ID",
    ),
    ("/api/v1/namespaces/{namespace}/agents/{name}/suspend", "post", "Suspend an Agent"),
    ("/api/v1/namespaces/{namespace}/agents/{name}/resume", "post", "Resume an Agent"),
    ("/api/v1/namespaces/{namespace}/crontasks/{name}/suspend", "post", "Suspend a CronTask"),
    ("/api/v1/namespaces/{namespace}/crontasks/{name}/resume", "post", "Resume a CronTask"),
    ("/api/v1/namespaces/{namespace}/crontasks/{name}/trigger", "post", "Run a CronTask now"),
    ("/api/v1/namespaces/{namespace}/crontasks/{name}/history", "get", "The Tasks a CronTask created"),
];

fn operation(paths: &mut Map<String, Value>, path: &str, method: &str, summary: &str, body: Option<&str>) {
    let parameters: Vec<Value> = ["namespace", "name"]
        .into_iter()
        .filter(|name| path.contains(&format!("{{{name}}}")))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let mut operation = json!({
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "Done"},
            "default": {"description": "Refused", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
        },
    });
    if let Some(kind) = body {
        let schema = json!({"schema": {"$ref": format!("#/components/schemas/{kind}")}});
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": schema, "application/yaml": schema}});
    }
    paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
}

fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "required": ["error", "message", "code"],
            "properties": {"error": {"type": "string"}, "message": {"type": "string"}, "code": {"type": "integer"}, "details": {"type": "object"}},
        }),
    );
    for definition in api::crds() {
        let version = &definition.spec.versions[0];
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default();
        schemas.insert(definition.spec.names.kind, schema);
    }
    schemas
}
