//! Sets written under an older schema: what has become atomic is owned as a whole now.

use super::path::Element;
use super::set::Set;
use super::shape::{Node, Shape};
use serde_json::Value;

/// The set as it would be written today.
pub(super) fn with_schema(node: Node<'_>, mut fields: Set) -> Set {
    let below = std::mem::take(&mut fields.children);
    for (element, set) in below {
        let place = node.below(&element);
        if is_atomic(place, &set) {
            fields.members.insert(element);
        } else {
            fields.attach(&element, with_schema(place, set));
        }
    }
    fields
}

/// Whether a place that has owned fields below it is owned as a whole by the schema of today.
fn is_atomic(node: Node<'_>, below: &Set) -> bool {
    let first = below.members.first().or_else(|| below.children.keys().next());
    let sample = match first {
        Some(Element::Field(_)) => Value::Object(serde_json::Map::new()),
        _ => Value::Array(Vec::new()),
    };
    matches!(node.shape(&sample), Shape::Leaf) && !node.is_unknown()
}
