//! A value without some of its fields.

use serde_json::{Map, Value};

use crate::apply::path::Element;
use crate::apply::set::Set;
use crate::apply::shape::{Node, Shape};

/// The object without the members of `doomed`.
pub(in crate::apply) fn remove(node: Node<'_>, value: &Value, doomed: &Set) -> Value {
    without(node, value, doomed).unwrap_or_else(|| Value::Object(Map::new()))
}

/// `None` when nothing is left: a container that lost everything goes too.
fn without(node: Node<'_>, value: &Value, doomed: &Set) -> Option<Value> {
    match (node.shape(value), value) {
        (Shape::List(list), Value::Array(items)) => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| match list.element(item) {
                    Ok(element) => prune(list.items, &element, item, doomed),
                    Err(_) => Some(item.clone()),
                })
                .collect();
            Some(kept).filter(|items| !items.is_empty()).map(Value::Array)
        }
        (Shape::Map(node), Value::Object(members)) => {
            let kept: Map<String, Value> = members
                .iter()
                .filter_map(|(name, value)| {
                    let element = Element::field(name);
                    Some((name.clone(), prune(node.below(&element), &element, value, doomed)?))
                })
                .collect();
            Some(kept).filter(|members| !members.is_empty()).map(Value::Object)
        }
        // Something below a value that is owned as a whole cannot go alone.
        (Shape::Leaf, Value::Object(_) | Value::Array(_)) => None,
        (_, scalar) => Some(scalar.clone()),
    }
}

fn prune(node: Node<'_>, element: &Element, value: &Value, doomed: &Set) -> Option<Value> {
    if doomed.members.contains(element) {
        return None;
    }
    match doomed.children.get(element) {
        Some(below) => without(node, value, below),
        None => Some(value.clone()),
    }
}
