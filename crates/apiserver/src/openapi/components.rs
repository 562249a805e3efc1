//! The schemas of a document: each kind, and every shared type below it once.

use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::builtin;
use machinery::schema::Schema;
use serde_json::{Value, json};

use crate::kinds::Kind;

/// The types every operation speaks of.
const SHARED: [&str; 4] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
];

/// Any patch.
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// Every schema the rows need.
pub fn of(kinds: &[&Arc<Kind>]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for kind in kinds {
        let Some(schema) = &kind.schema else { continue };
        let name = name(kind);
        let mut value = schema.to_openapi();
        value["x-kubernetes-group-version-kind"] =
            json!([{ "group": kind.group, "version": kind.version, "kind": kind.kind }]);
        found.insert(name.clone(), value);
        found.insert(format!("{name}List"), list(kind, &name));
        collect(schema, &mut found);
    }
    for name in SHARED {
        add(name, &mut found);
    }
    found.insert(PATCH.into(), json!({ "type": "object", "description": "A patch; its media type says which kind." }));
    found
}

/// The name of a kind's schema: its package backwards for custom kinds, the built-in name otherwise.
pub fn name(kind: &Kind) -> String {
    if let Some(name) = kind.schema.as_ref().and_then(|schema| schema.name.clone()) {
        return name;
    }
    let domain: Vec<&str> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", domain.join("."), kind.version, kind.kind)
}

fn collect(schema: &Schema, found: &mut BTreeMap<String, Value>) {
    for name in schema.referenced_names() {
        add(&name, found);
    }
}

fn add(name: &str, found: &mut BTreeMap<String, Value>) {
    if found.contains_key(name) {
        return;
    }
    let Some(schema) = builtin::type_named(name) else { return };
    found.insert(name.to_owned(), schema.to_openapi());
    collect(&schema, found);
}

fn list(kind: &Kind, name: &str) -> Value {
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
    json!({
        "description": format!("A list of {} objects.", kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string", "description": "Version of the schema of this object." },
            "kind": { "type": "string", "description": "The kind of this object." },
            "metadata": { "allOf": [{ "$ref": meta }], "description": "Where the list stands in time.", "default": {} },
            "items": { "type": "array", "items": { "$ref": format!("#/components/schemas/{name}") } },
        },
        "x-kubernetes-group-version-kind":
            [{ "group": kind.group, "version": kind.version, "kind": kind.list_kind }],
    })
}
