//! What changed between two values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{items, members};
use crate::apply::path::{Element, equal};
use crate::apply::set::Set;
use crate::apply::shape::{List, Node, Shape};

/// Which fields went, changed and came.
#[derive(Clone, Debug, Default)]
pub(in crate::apply) struct Comparison {
    pub(in crate::apply) removed: Set,
    pub(in crate::apply) modified: Set,
    pub(in crate::apply) added: Set,
}

impl Comparison {
    /// The comparison without `ignored` and everything below.
    pub(in crate::apply) fn without(&self, ignored: &Set) -> Self {
        Self {
            removed: self.removed.difference_below(ignored),
            modified: self.modified.difference_below(ignored),
            added: self.added.difference_below(ignored),
        }
    }
}

/// Compares two objects.
pub(in crate::apply) fn compare(node: Node<'_>, old: &Value, new: &Value) -> Comparison {
    values(node, Some(old), Some(new)).below
}

/// What happened to one value.
#[derive(Default)]
struct Change {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
}

impl Change {
    /// The change of a value that is owned as a whole.
    fn of_leaf(old: Option<&Value>, new: Option<&Value>) -> Self {
        let modified = matches!((old, new), (Some(old), Some(new)) if !equal(old, new));
        Self { modified, ..Self::of_presence(old, new) }
    }

    fn of_presence(old: Option<&Value>, new: Option<&Value>) -> Self {
        Self { removed: new.is_none(), added: old.is_none(), ..Self::default() }
    }

    /// Records the change of what stands at `element`.
    fn record(&mut self, element: &Element, change: Self) {
        let sets = [
            (&mut self.below.removed, change.removed, change.below.removed),
            (&mut self.below.modified, change.modified, change.below.modified),
            (&mut self.below.added, change.added, change.below.added),
        ];
        for (set, itself, below) in sets {
            if itself {
                set.members.insert(element.clone());
            }
            set.attach(element, below);
        }
    }

    fn and(mut self, other: Self) -> Self {
        self.removed |= other.removed;
        self.modified |= other.modified;
        self.added |= other.added;
        self.below.removed = self.below.removed.union(other.below.removed);
        self.below.modified = self.below.modified.union(other.below.modified);
        self.below.added = self.below.added.union(other.below.added);
        self
    }
}

fn values(node: Node<'_>, old: Option<&Value>, new: Option<&Value>) -> Change {
    // Most of an object stays as it is in a write, and to see that takes less than to name all that is in it.
    if old.is_some() && old == new {
        return Change::default();
    }
    match (old.map(|old| node.shape(old)), new.map(|new| node.shape(new))) {
        (Some(before), Some(after)) if !before.is_like(&after) => {
            by_shape(before, old, new).and(by_shape(after, old, new))
        }
        (_, Some(shape)) | (Some(shape), None) => by_shape(shape, old, new),
        (None, None) => Change::default(),
    }
}

fn by_shape(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> Change {
    let mut change = Change::of_presence(old, new);
    match shape {
        Shape::Leaf => return Change::of_leaf(old, new),
        Shape::List(list) => {
            let (before, after) = (items(old), items(new));
            // Two empty lists count as leaves, so that empty and null stay two things.
            if before.is_empty() && after.is_empty() {
                return Change::of_leaf(old, new);
            }
            lists(&mut change, list, before, after);
        }
        Shape::Map(node) => {
            let (before, after) = (members(old), members(new));
            if before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty) {
                return Change::of_leaf(old, new);
            }
            let names: BTreeSet<&String> = [before, after].into_iter().flatten().flat_map(Map::keys).collect();
            for name in names {
                let element = Element::field(name);
                let old = before.and_then(|members| members.get(name));
                let new = after.and_then(|members| members.get(name));
                change.record(&element, values(node.below(&element), old, new));
            }
        }
    }
    change
}

fn lists(change: &mut Change, list: List<'_>, before: &[Value], after: &[Value]) {
    let mut pairs: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in before {
        if let Ok(element) = list.element(item) {
            pairs.entry(element).or_default().0.push(item);
        }
    }
    for item in after {
        if let Ok(element) = list.element(item) {
            pairs.entry(element).or_default().1.push(item);
        }
    }
    for (element, (old, new)) in pairs {
        match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => {
                change.record(&element, values(list.items, old.first().copied(), new.first().copied()));
            }
            // Twins on both sides count as one thing.
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                change.record(&element, Change { modified: !same, ..Change::default() });
            }
            ([_, _, ..], rest) => {
                if let [new] = rest {
                    change.record(&element, values(list.items, None, Some(new)));
                }
                change.record(&element, Change { removed: true, ..Change::default() });
            }
            (rest, _) => {
                if let [old] = rest {
                    change.record(&element, values(list.items, Some(old), None));
                }
                change.record(&element, Change { added: true, ..Change::default() });
            }
        }
    }
}
