//! Whether an applied configuration can be merged at all.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::apply::path::Element;
use crate::apply::shape::{Node, Shape};
use crate::schema::Type;

/// What stands in the way of merging this configuration, each with its path.
pub(in crate::apply) fn validate(node: Node<'_>, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    visit(node, value, "", &mut problems);
    problems
}

fn visit(node: Node<'_>, value: &Value, path: &str, problems: &mut Vec<String>) {
    if let Some(expected) = mismatch(node, value) {
        problems.push(located(path, &format!("expected {expected}, got {}", name_of(value))));
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}.{name}");
                match node.member(name) {
                    Some(member) => visit(member, value, &path, problems),
                    None => problems.push(format!("{path}: field not declared in schema")),
                }
            }
        }
        Value::Array(items) => visit_items(node, value, items, path, problems),
        _ => {}
    }
}

fn visit_items(node: Node<'_>, value: &Value, items: &[Value], path: &str, problems: &mut Vec<String>) {
    let Shape::List(list) = node.shape(value) else {
        for (index, item) in items.iter().enumerate() {
            visit(node.items(), item, &format!("{path}[{index}]"), problems);
        }
        return;
    };
    let mut seen: BTreeSet<Element> = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        match list.element(item) {
            Err(why) => problems.push(located(path, &format!("element {index}: {why}"))),
            Ok(element) => {
                visit(list.items, item, &format!("{path}{element}"), problems);
                if seen.contains(&element) {
                    problems.push(located(path, &format!("duplicate entries for key {element}")));
                }
                seen.insert(element);
            }
        }
    }
}

fn located(path: &str, problem: &str) -> String {
    if path.is_empty() { problem.to_owned() } else { format!("{path}: {problem}") }
}

/// What a value is, in words.
fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

/// What was expected, when the value is something else.
fn mismatch(node: Node<'_>, value: &Value) -> Option<&'static str> {
    let scalar = !value.is_object() && !value.is_array();
    let (fits, expected) = match node.value_type() {
        _ if value.is_null() => (true, ""),
        Type::Any => (true, ""),
        Type::Object => (value.is_object(), "map"),
        Type::Array => (value.is_array(), "list"),
        Type::String if node.has_format() => (scalar, "any scalar"),
        Type::String => (value.is_string(), "string"),
        Type::Integer | Type::Number => (value.is_number(), "numeric (int or float)"),
        Type::Boolean => (value.is_boolean(), "boolean"),
        Type::IntOrString => (scalar, "any scalar"),
    };
    (!fits).then_some(expected)
}
