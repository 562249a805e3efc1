//! Objects that fit a schema, for property tests.

use std::sync::Arc;

use machinery::schema::{Additional, ListType, Schema, Type};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any value of this schema: fields may be absent, keyed lists hold each key once, sets each
/// member once, and there is no `null`.
pub fn value(schema: &Schema) -> BoxedStrategy<Value> {
    match schema.value_type {
        Type::Object => object(schema),
        Type::Array => list(schema),
        Type::String => "[a-d]".prop_map(Value::String).boxed(),
        Type::Integer | Type::Number => (0..5i64).prop_map(Value::from).boxed(),
        Type::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::IntOrString => prop_oneof![(0..3i64).prop_map(Value::from), "[a-c]".prop_map(Value::from)].boxed(),
        Type::Any => json_value(),
    }
}

/// Any JSON without `null`.
pub fn json_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        (-3..3i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-d/~]{1,2}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
    .boxed()
}

/// An object at the root, so that every patch type can change it.
pub fn json_object() -> BoxedStrategy<Value> {
    prop::collection::btree_map("[a-d/~]{1,2}", json_value(), 0..5).prop_map(|map| json!(map)).boxed()
}

fn object(schema: &Schema) -> BoxedStrategy<Value> {
    let fields: Vec<BoxedStrategy<Option<(String, Value)>>> = schema
        .properties
        .iter()
        .map(|(name, field)| {
            let name = name.clone();
            prop::option::weighted(0.6, value(field))
                .prop_map(move |value| value.map(|value| (name.clone(), value)))
                .boxed()
        })
        .collect();
    let others = match &schema.additional {
        Some(Additional::Schema(values)) => prop::collection::btree_map("[a-d]", value(values), 0..4).boxed(),
        _ => Just(std::collections::BTreeMap::new()).boxed(),
    };
    (fields, others)
        .prop_map(|(fields, others)| Value::Object(fields.into_iter().flatten().chain(others).collect::<Map<_, _>>()))
        .boxed()
}

fn list(schema: &Schema) -> BoxedStrategy<Value> {
    let items: Arc<Schema> = schema.items.clone().unwrap();
    match &schema.list_type {
        ListType::Atomic => prop::collection::vec(value(&items), 0..4).prop_map(Value::Array).boxed(),
        ListType::Set => distinct(value(&items), Value::to_string),
        ListType::Map(keys) => {
            let required: Vec<BoxedStrategy<(String, Value)>> = keys
                .iter()
                .map(|key| {
                    let name = key.clone();
                    value(&items.properties[key]).prop_map(move |value| (name.clone(), value)).boxed()
                })
                .collect();
            let item = (value(&items), required).prop_map(|(mut item, keys)| {
                item.as_object_mut().unwrap().extend(keys);
                item
            });
            // The merge key of strategic merge patch is the first key only.
            let key = keys[0].clone();
            distinct(item.boxed(), move |item| item[&key].to_string())
        }
    }
}

fn distinct(items: BoxedStrategy<Value>, identity: impl Fn(&Value) -> String + 'static) -> BoxedStrategy<Value> {
    prop::collection::vec(items, 0..5)
        .prop_map(move |items| {
            let mut seen = std::collections::BTreeSet::new();
            Value::Array(items.into_iter().filter(|item| seen.insert(identity(item))).collect())
        })
        .boxed()
}
