//! Shapes that the derive cannot give: Kubernetes' own types embedded in ours, and the last touches on a definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// The schema of a Kubernetes type. Each of its fields says where its documentation is, instead of carrying a copy that
/// would make the definition several times larger than the objects it describes.
fn embedded<T: JsonSchema>(generator: &mut SchemaGenerator, path: &str) -> Schema {
    let mut schema = Value::from(generator.subschema_for::<T>());
    describe(&mut schema, path);
    Schema::try_from(schema).expect("a described schema is still a schema")
}

fn describe(schema: &mut Value, path: &str) {
    let Some(object) = schema.as_object_mut() else { return };
    object.insert("description".into(), format!("As in a Pod: see `kubectl explain {path}`.").into());
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            describe(property, &format!("{path}.{name}"));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            describe(inner, path);
        }
    }
}

macro_rules! embed {
    ($($name:ident: $type:ty = $path:literal;)*) => {
        $(pub(crate) fn $name(generator: &mut SchemaGenerator) -> Schema {
            embedded::<$type>(generator, $path)
        })*
    };
}

use k8s_openapi::api::core::v1 as core;
embed! {
    affinity: core::Affinity = "pod.spec.affinity";
    tolerations: Vec<core::Toleration> = "pod.spec.tolerations";
    resources: core::ResourceRequirements = "pod.spec.containers.resources";
    security_context: core::SecurityContext = "pod.spec.containers.securityContext";
    pod_security_context: core::PodSecurityContext = "pod.spec.securityContext";
    lifecycle: core::Lifecycle = "pod.spec.containers.lifecycle";
    volumes: Vec<core::Volume> = "pod.spec.volumes";
    volume_mounts: Vec<core::VolumeMount> = "pod.spec.containers.volumeMounts";
    env: Vec<core::EnvVar> = "pod.spec.containers.env";
}

/// A list of names of Secrets that hold registry credentials.
pub(crate) fn image_pull_secrets(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "A Secret in the same namespace.",
            "properties": {
                "name": {
                    "type": "string",
                    "default": "",
                    "description": "Name of a Secret of type kubernetes.io/dockerconfigjson.",
                },
            },
            "x-kubernetes-map-type": "atomic",
        },
    })
}

/// A value of any shape. Whether it is one that can be used is said by a condition, because a schema cannot.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A JSON Schema, as an object. Whether it is one that can be used is said by a condition.
pub(crate) fn json_schema_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A point in time, as RFC 3339.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// References to live objects.
pub(crate) fn object_references(_: &mut SchemaGenerator) -> Schema {
    let text = |description: &str| serde_json::json!({ "type": "string", "description": description });
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "One Task.",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": text("API version of the object."),
                "kind": text("Kind of the object."),
                "namespace": text("Namespace of the object."),
                "name": text("Name of the object."),
                "uid": text("UID of the object, which tells it from another of the same name."),
            },
        },
    })
}

/// A definition as it should be applied: null is nowhere a value of its own (an unset field says the same), and
/// `required` fields of the spec that the shared Rust type leaves open are closed.
pub(crate) fn finish(definition: CustomResourceDefinition, required: &[&str]) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(definition).expect("a definition is JSON");
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let root = &mut version["schema"]["openAPIV3Schema"];
        drop_null(root);
        if !required.is_empty() {
            let spec = root["properties"]["spec"].as_object_mut().expect("every kind has a spec");
            require(spec, required);
        }
    }
    serde_json::from_value(value).expect("the touched definition is still one")
}

fn require(spec: &mut Map<String, Value>, fields: &[&str]) {
    let list = spec.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    let list = list.as_array_mut().expect("required is a list");
    list.extend(fields.iter().map(|field| Value::from(*field)));
}

fn drop_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("type") || object.contains_key("x-kubernetes-int-or-string") {
                object.remove("nullable");
            }
            object.values_mut().for_each(drop_null);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null),
        _ => {}
    }
}
