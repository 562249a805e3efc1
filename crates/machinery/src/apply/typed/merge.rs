//! One value on top of another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{items, members};
use crate::apply::path::Element;
use crate::apply::shape::{List, Node, Shape};

/// The live value with the applied one on top. Nothing is removed.
pub(in crate::apply) fn merge(node: Node<'_>, live: &Value, applied: &Value) -> Value {
    values(node, Some(live), Some(applied)).unwrap_or_else(|| Value::Object(Map::new()))
}

fn values(node: Node<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let upper = applied.or(live)?;
    match node.shape(upper) {
        Shape::Leaf => Some(upper.clone()),
        Shape::List(list) => {
            let (lower, above) = (items(live), items(applied));
            if lower.is_empty() && above.is_empty() {
                return Some(upper.clone());
            }
            Some(lists(list, lower, above)).filter(|items| !items.is_empty()).map(Value::Array)
        }
        Shape::Map(node) => {
            let (lower, above) = (members(live), members(applied));
            if lower.is_none_or(Map::is_empty) && above.is_none_or(Map::is_empty) {
                return Some(upper.clone());
            }
            let names: BTreeSet<&String> = [lower, above].into_iter().flatten().flat_map(Map::keys).collect();
            let merged: Map<String, Value> = names
                .into_iter()
                .filter_map(|name| {
                    let lower = lower.and_then(|members| members.get(name));
                    let above = above.and_then(|members| members.get(name));
                    Some((name.clone(), values(node.below(&Element::field(name)), lower, above)?))
                })
                .collect();
            Some(merged).filter(|members| !members.is_empty()).map(Value::Object)
        }
    }
}

/// One side of a list merge: the items in order, and each by its identity.
struct Side<'a> {
    order: Vec<(Element, &'a Value)>,
    /// Twins have no value of their own: nothing can be merged into them.
    by_element: BTreeMap<Element, Option<&'a Value>>,
}

impl<'a> Side<'a> {
    fn new(list: List<'_>, items: &'a [Value]) -> Self {
        let mut side = Self { order: Vec::with_capacity(items.len()), by_element: BTreeMap::new() };
        for item in items {
            if let Ok(element) = list.element(item) {
                side.by_element.entry(element.clone()).and_modify(|twin| *twin = None).or_insert(Some(item));
                side.order.push((element, item));
            }
        }
        side
    }

    fn has(&self, element: &Element) -> bool {
        self.by_element.contains_key(element)
    }

    fn get(&self, element: &Element) -> Option<&'a Value> {
        self.by_element.get(element).copied().flatten()
    }
}

/// Merges item by item. Items of both lists stand in the order of the applied list; items of only
/// one side stay where they are between their neighbours.
fn lists(list: List<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let (live, applied) = (Side::new(list, live), Side::new(list, applied));
    let shared = applied.order.iter().map(|(element, _)| element).filter(|element| live.has(element));
    let mut shared: VecDeque<&Element> = shared.collect();
    let mut merged = Vec::with_capacity(live.order.len().max(applied.order.len()));
    let mut taken: BTreeSet<&Element> = BTreeSet::new();
    let mut from_live = live.order.iter().peekable();
    let mut from_applied = applied.order.iter().peekable();
    loop {
        if let Some((element, item)) = from_live.peek() {
            let upcoming = from_applied.peek().map(|(element, _)| element);
            let out_of_turn = upcoming.is_some()
                && upcoming != Some(element)
                && applied.has(element)
                && shared.front().is_some_and(|next| *next != element);
            if out_of_turn {
                from_live.next();
                continue;
            }
            if !applied.has(element) {
                merged.extend(values(list.items, Some(item), None));
                from_live.next();
                continue;
            }
            if upcoming == Some(element) || taken.contains(element) {
                from_live.next();
            }
        }
        let Some((element, _)) = from_applied.next() else {
            if from_live.peek().is_none() {
                return merged;
            }
            continue;
        };
        taken.insert(element);
        shared.pop_front_if(|next| *next == element);
        merged.extend(values(list.items, live.get(element), applied.get(element)));
    }
}
