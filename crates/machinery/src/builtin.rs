//! The built-in kinds: their schemas, from a compact table of our own.
//!
//! `builtin/types.txt` is read lazily, type by type, and types are shared by `Arc`: `PodSpec` exists once,
//! however many kinds hold one. A line of the table:
//!
//! ```text
//! package io.k8s.api.core.v1 v1            types that follow, and the apiVersion of their kinds
//! type Container | One process of a Pod.    attributes: kind, atomic, any
//!   name! string | Unique in the Pod.       ! required   ? a zero value means absent
//!   ports? [ContainerPort] list=map:containerPort,protocol patch=merge:containerPort | …
//! ```
//!
//! Field types are `string`, `bool`, `int32`, `int64`, `number`, `bytes`, `time`, `microtime`, `quantity`,
//! `int-or-string`, `object`, `any`, `fields`, `[T]`, `{T}` or the name of a type. Attributes are `zero` (written
//! even when empty), `="default"`, `enum=A,B`, `list=…`, `atomic` and `patch=…`.

mod defaults;
mod normalize;
mod validation;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

use serde_json::{Value, json};

use crate::schema::{Additional, ListType, PatchStrategy, Schema, Type};

pub use defaults::default;
pub use normalize::{decode, normalize};
pub use validation::validate;

const TABLE: &str = include_str!("builtin/types.txt");
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// The schema of a built-in kind, such as `("apps/v1", "Deployment")`.
pub fn schema(api_version: &str, kind: &str) -> Option<Arc<Schema>> {
    let name = INDEX.kinds.get(&(api_version, kind))?;
    type_named(name)
}

/// All built-in kinds, as `(apiVersion, kind)`.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    INDEX.kinds.keys().copied()
}

/// A shared type by its full name, such as `io.k8s.api.core.v1.PodSpec`.
pub fn type_named(name: &str) -> Option<Arc<Schema>> {
    static TYPES: LazyLock<RwLock<HashMap<String, Arc<Schema>>>> = LazyLock::new(RwLock::default);
    if let Ok(types) = TYPES.read()
        && let Some(known) = types.get(name)
    {
        return Some(known.clone());
    }
    let built = Arc::new(scalar_type(name).or_else(|| Some(build(name, INDEX.types.get(name)?)))?);
    if let Ok(mut types) = TYPES.write() {
        return Some(types.entry(name.to_owned()).or_insert(built).clone());
    }
    Some(built)
}

/// The schema of `metadata`.
pub fn object_meta() -> Arc<Schema> {
    static OBJECT_META: LazyLock<Arc<Schema>> =
        LazyLock::new(|| type_named(&format!("{META}.ObjectMeta")).expect("the table has ObjectMeta"));
    OBJECT_META.clone()
}

/// The types that contain themselves; everywhere else they occur as references.
pub(crate) fn recursive_type(name: &str) -> Option<&'static Schema> {
    static PROPS: LazyLock<Arc<Schema>> =
        LazyLock::new(|| type_named(&format!("{EXTENSIONS}.JSONSchemaProps")).expect("the table has JSONSchemaProps"));
    /// A schema, or something simpler in its place: a boolean, a list.
    static PROPS_OR_OTHER: LazyLock<Schema> = LazyLock::new(|| Schema {
        value_type: Type::Any,
        items: Some(Arc::new(reference("JSONSchemaProps"))),
        ..(**PROPS).clone()
    });
    match name.strip_prefix(EXTENSIONS)? {
        ".JSONSchemaProps" => Some(&PROPS),
        other if other.starts_with(".JSONSchemaPropsOr") => Some(&PROPS_OR_OTHER),
        _ => None,
    }
}

fn reference(name: &str) -> Schema {
    Schema { name: Some(format!("{EXTENSIONS}.{name}")), reference: true, ..Schema::default() }
}

struct Index {
    kinds: HashMap<(&'static str, &'static str), String>,
    types: HashMap<String, Block>,
}

/// The lines of one type.
#[derive(Clone, Copy)]
struct Block {
    package: &'static str,
    header: &'static str,
    body: &'static str,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index { kinds: HashMap::new(), types: HashMap::new() };
    let (mut package, mut api_version) = ("", "");
    let mut rest = TABLE;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if let Some(line) = line.strip_prefix("package ") {
            (package, api_version) = line.split_once(' ').unwrap_or((line, ""));
        }
        let Some(header) = line.strip_prefix("type ") else { continue };
        let short = header.split(' ').next().unwrap_or(header);
        let name = format!("{package}.{short}");
        if attributes(header).any(|attribute| attribute == "kind") {
            index.kinds.insert((api_version, short), name.clone());
        }
        // Up to the next type or package: an empty line is only looked for in front of that.
        let block = &after[..after.find("\ntype ").unwrap_or(after.len())];
        let block = block.split_once("\n\n").map_or(block, |(block, _)| block);
        let body = if after.starts_with("  ") { block } else { "" };
        index.types.insert(name, Block { package, header, body });
    }
    index
});

fn description(line: &str) -> Option<String> {
    line.split_once(" | ").map(|(_, words)| words.to_owned())
}

/// The words between the first one and the description.
fn attributes(line: &str) -> impl Iterator<Item = &str> {
    line.split(" | ").next().unwrap_or_default().split(' ').skip(1)
}

fn build(name: &str, block: &Block) -> Schema {
    let mut schema = Schema {
        name: Some(name.to_owned()),
        description: description(block.header),
        value_type: Type::Object,
        ..Schema::default()
    };
    for attribute in attributes(block.header) {
        match attribute {
            "atomic" => schema.atomic_map = true,
            "any" => {
                schema.value_type = Type::Any;
                schema.preserve_unknown_fields = true;
            }
            _ => {}
        }
    }
    for line in block.body.lines() {
        let line = line.trim_start();
        let first = line.split(' ').next().unwrap_or(line);
        let field = first.trim_end_matches(['!', '?']);
        if first.ends_with('!') {
            schema.required.push(field.to_owned());
        }
        schema.properties.insert(field.to_owned(), Arc::new(build_field(block.package, line, first.ends_with('?'))));
    }
    schema
}

fn build_field(package: &str, line: &str, omit_empty: bool) -> Schema {
    let mut attributes = attributes(line);
    let mut schema = field_type(package, attributes.next().unwrap_or("any"));
    schema.description = description(line).or(schema.description);
    schema.omit_empty = omit_empty;
    for attribute in attributes {
        let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        match key {
            "" => schema.default = serde_json::from_str(value).ok(),
            "zero" => schema.default = Some(zero(&mut schema)),
            "atomic" => schema.atomic_map = true,
            "enum" => schema.enumeration = value.split(',').map(Value::from).collect(),
            "list" => {
                schema.list_type_given = true;
                schema.list_type = match value.split_once(':') {
                    Some(("map", keys)) => ListType::Map(keys.split(',').map(str::to_owned).collect()),
                    _ if value == "set" => ListType::Set,
                    _ => ListType::Atomic,
                };
            }
            "patch" => {
                let (strategy, merge_key) =
                    value.split_once(':').map_or((value, None), |(s, key)| (s, Some(key.to_owned())));
                let has = |name: &str| strategy.split(',').any(|part| part == name);
                schema.patch = Some(PatchStrategy { merge: has("merge"), retain_keys: has("retainKeys"), merge_key });
            }
            _ => {}
        }
    }
    schema
}

/// What Go writes for a field that was never set and has no `omitempty`.
fn zero(schema: &mut Schema) -> Value {
    match schema.value_type {
        Type::Object if schema.additional.is_none() => json!({}),
        Type::Boolean => false.into(),
        Type::Integer | Type::Number => 0.into(),
        Type::String if schema.format.as_deref() != Some("date-time") => "".into(),
        _ => {
            schema.nullable = true;
            Value::Null
        }
    }
}

fn field_type(package: &str, text: &str) -> Schema {
    if let Some(item) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let items = Some(shared_type(package, item));
        return Schema { value_type: Type::Array, items, ..Schema::default() };
    }
    if let Some(value) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        let additional = Some(Additional::Schema(shared_type(package, value)));
        return Schema { value_type: Type::Object, additional, ..Schema::default() };
    }
    let plain = |value_type, format: Option<&str>| Schema {
        value_type,
        format: format.map(str::to_owned),
        ..Schema::default()
    };
    match text {
        "string" => plain(Type::String, None),
        "bytes" => plain(Type::String, Some("byte")),
        "bool" => plain(Type::Boolean, None),
        "int32" | "int64" => plain(Type::Integer, Some(text)),
        "number" => plain(Type::Number, Some("double")),
        "object" => Schema { preserve_unknown_fields: true, ..plain(Type::Object, None) },
        "any" => Schema { preserve_unknown_fields: true, ..plain(Type::Any, None) },
        name => (*shared_type(package, name)).clone(),
    }
}

/// The full name of a type as the table writes it: `Container`, `meta.ObjectMeta`, `core.PodSpec`.
fn full_name(package: &str, text: &str) -> String {
    match text {
        "time" => format!("{META}.Time"),
        "microtime" => format!("{META}.MicroTime"),
        "fields" => format!("{META}.FieldsV1"),
        "quantity" => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
        "int-or-string" => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
        _ => match text.split_once('.') {
            Some(("meta", name)) => format!("{META}.{name}"),
            Some((group, name)) => format!("io.k8s.api.{group}.v1.{name}"),
            None => format!("{package}.{text}"),
        },
    }
}

fn shared_type(package: &str, text: &str) -> Arc<Schema> {
    if text.starts_with("JSONSchemaProps") {
        return Arc::new(reference(text));
    }
    type_named(&full_name(package, text)).unwrap_or_else(|| Arc::new(field_type(package, text)))
}

/// Types that are scalars or free-form on the wire.
fn scalar_type(name: &str) -> Option<Schema> {
    let short = name.rsplit('.').next()?;
    let mut schema = Schema { name: Some(name.to_owned()), ..Schema::default() };
    match short {
        "Time" | "MicroTime" if name.starts_with(META) => {
            schema.value_type = Type::String;
            schema.format = Some("date-time".to_owned());
            schema.nullable = true;
            schema.description = Some("An instant, as RFC 3339 writes it.".to_owned());
        }
        "FieldsV1" if name.starts_with(META) => {
            schema.value_type = Type::Object;
            schema.preserve_unknown_fields = true;
            schema.description =
                Some("A set of fields: a tree with keys such as f:name, k:{…}, v:… and i:….".to_owned());
        }
        "Quantity" => {
            schema.format = Some("quantity".to_owned());
            schema.description = Some("An amount with an optional unit suffix: 500m, 2, 128Mi, 1e3.".to_owned());
        }
        "IntOrString" => {
            schema.value_type = Type::IntOrString;
            schema.format = Some("int-or-string".to_owned());
            schema.description = Some("A whole number, or a string such as a port name or a percentage.".to_owned());
        }
        _ => return None,
    }
    Some(schema)
}
