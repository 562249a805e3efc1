//! Small schemas, written as briefly as they are read.

use std::sync::Arc;

use machinery::schema::{Additional, ListType, PatchStrategy, Schema, Type};

pub fn scalar(value_type: Type) -> Schema {
    Schema { value_type, ..Schema::default() }
}

pub fn string() -> Schema {
    scalar(Type::String)
}

pub fn integer() -> Schema {
    scalar(Type::Integer)
}

pub fn object<const N: usize>(fields: [(&str, Schema); N]) -> Schema {
    let properties = fields.into_iter().map(|(name, field)| (name.to_owned(), Arc::new(field))).collect();
    Schema { properties, ..scalar(Type::Object) }
}

pub fn map_of(values: Schema) -> Schema {
    Schema { additional: Some(Additional::Schema(Arc::new(values))), ..scalar(Type::Object) }
}

pub fn atomic_map(schema: Schema) -> Schema {
    Schema { atomic_map: true, ..schema }
}

pub fn list(items: Schema) -> Schema {
    Schema { items: Some(Arc::new(items)), ..scalar(Type::Array) }
}

pub fn set(items: Schema) -> Schema {
    let patch = PatchStrategy { merge: true, ..PatchStrategy::default() };
    Schema { list_type: ListType::Set, patch: Some(patch), ..list(items) }
}

/// A list of objects. The first key is also the merge key of strategic merge patch.
pub fn keyed(keys: &[&str], items: Schema) -> Schema {
    let patch = PatchStrategy { merge: true, merge_key: Some(keys[0].to_owned()), ..PatchStrategy::default() };
    let list_type = ListType::Map(keys.iter().map(|key| (*key).to_owned()).collect());
    Schema { list_type, patch: Some(patch), ..list(items) }
}

pub fn retain_keys(mut schema: Schema) -> Schema {
    schema.patch.get_or_insert_default().retain_keys = true;
    schema
}

pub fn with_default(schema: Schema, default: impl Into<serde_json::Value>) -> Schema {
    Schema { default: Some(default.into()), ..schema }
}

fn metadata() -> Schema {
    object([
        ("name", string()),
        ("namespace", string()),
        ("labels", map_of(string())),
        ("annotations", map_of(string())),
        ("finalizers", set(string())),
        (
            "ownerReferences",
            keyed(&["uid"], atomic_map(object([("uid", string()), ("name", string()), ("kind", string())]))),
        ),
    ])
}

/// Something like a Deployment: every kind of list and map, two levels deep.
pub fn deployment() -> Schema {
    let port = object([("containerPort", integer()), ("protocol", with_default(string(), "TCP")), ("name", string())]);
    let variable = object([("name", string()), ("value", string())]);
    let container = object([
        ("name", string()),
        ("image", string()),
        ("args", list(string())),
        ("env", keyed(&["name"], variable)),
        ("ports", keyed(&["containerPort", "protocol"], port)),
    ]);
    let empty_dir = object([("medium", string())]);
    let config_map = object([("name", string())]);
    let volume = object([("name", string()), ("emptyDir", empty_dir), ("configMap", config_map)]);
    let pod = object([
        ("containers", keyed(&["name"], container)),
        ("volumes", retain_keys(keyed(&["name"], volume))),
        ("nodeSelector", atomic_map(map_of(string()))),
        ("restartPolicy", string()),
    ]);
    let strategy = object([("type", string()), ("rollingUpdate", object([("maxSurge", scalar(Type::IntOrString))]))]);
    object([
        ("apiVersion", string()),
        ("kind", string()),
        ("metadata", metadata()),
        (
            "spec",
            object([
                ("replicas", integer()),
                ("paused", scalar(Type::Boolean)),
                ("selector", atomic_map(object([("matchLabels", map_of(string()))]))),
                ("strategy", retain_keys(strategy)),
                ("template", object([("metadata", metadata()), ("spec", pod)])),
                ("gates", set(string())),
            ]),
        ),
        ("status", object([("replicas", integer())])),
    ])
}
