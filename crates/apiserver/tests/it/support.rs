//! What several tests need.

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use futures::StreamExt as _;
use serde_json::{Value, json};
use testkit::Plane;
use tower::ServiceExt as _;

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

pub fn labelled(name: &str, label: &str) -> Value {
    let mut object = map(name);
    object["metadata"]["labels"] = json!({ "l": label });
    object
}

/// A definition with status, scale, columns, a default, a rule and a selectable field.
pub fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "x-kubernetes-validations": [{ "rule": "self.size <= 10", "message": "size must not exceed 10" }],
                "properties": {
                    "size": { "type": "integer", "minimum": 0, "description": "How big it is." },
                    "color": { "type": "string", "default": "blue" },
                    "replicas": { "type": "integer" },
                },
            },
            "status": {
                "type": "object",
                "properties": { "replicas": { "type": "integer" }, "selector": { "type": "string" }, "phase": { "type": "string" } },
            },
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [{ "name": "Size", "type": "integer", "jsonPath": ".spec.size" }],
                "selectableFields": [{ "jsonPath": ".spec.color" }],
            }],
        },
    })
}

pub fn widget(name: &str, size: i64) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": { "size": size } })
}

/// A plane that serves widgets.
pub async fn with_widgets() -> Plane {
    let plane = Plane::start().await;
    let created = plane.post(DEFINITIONS, &definition()).await;
    assert_eq!(created.code, 201, "{}", created.text());
    plane
}

/// A watch as raw events.
pub struct Events {
    body: BodyDataStream,
    buffer: Vec<u8>,
}

impl Events {
    pub async fn open(plane: &Plane, path: &str, accept: &str) -> Self {
        let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
        let service = plane.server().service_as(apiserver::user::User::master("admin"));
        let response = service.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self { body: response.into_body().into_data_stream(), buffer: Vec::new() }
    }

    /// The next event, `None` at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.buffer.extend_from_slice(&self.body.next().await?.unwrap());
        }
    }

    /// Type and name of the next event.
    pub async fn brief(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

pub fn brief(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}
