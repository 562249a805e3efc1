//! Operations on values that follow the schema: which fields a value has, how two values differ,
//! what one becomes with the other on top, and what is left without some fields.

mod compare;
mod merge;
mod remove;
mod validate;

use serde_json::{Map, Value};

pub(super) use compare::{Comparison, compare};
pub(super) use merge::merge;
pub(super) use remove::remove;
pub(super) use validate::validate;

use super::path::Element;
use super::set::Set;
use super::shape::{List, Node, Shape};

/// Every field of an object, as its owner would own it.
pub(super) fn fields(node: Node<'_>, value: &Value) -> Set {
    collect(node, value).0
}

/// The fields below a value, and whether the value itself is one.
fn collect(node: Node<'_>, value: &Value) -> (Set, bool) {
    match node.shape(value) {
        Shape::Leaf => (Set::default(), true),
        Shape::List(list) => (of_list(list, items(Some(value))), false),
        Shape::Map(node) => {
            let mut set = Set::default();
            for (name, value) in members(Some(value)).into_iter().flatten() {
                let element = Element::field(name);
                let (below, itself) = collect(node.below(&element), value);
                let bare = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if itself || bare || !node.has_named(name) {
                    set.members.insert(element.clone());
                }
                set.attach(&element, below);
            }
            (set, false)
        }
    }
}

fn of_list(list: List<'_>, items: &[Value]) -> Set {
    let mut set = Set::default();
    for item in items {
        // Items without identity are refused where they come from; live objects may still hold some.
        let Ok(element) = list.element(item) else {
            continue;
        };
        if set.members.insert(element.clone()) {
            let (below, _) = collect(list.items, item);
            set.attach(&element, below);
        } else {
            // Twins are owned as one thing.
            set.children.remove(&element);
        }
    }
    set
}

/// The items of a list; none when it is something else.
fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The members of an object; none when it is something else.
fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}
