//! Sets of fields, kept as a tree.

use std::collections::{BTreeMap, BTreeSet};

use super::path::{Element, Path};
use super::shape::Node;

/// A set of paths. A path can be a member without its children being members, and the other way
/// round: to own `.labels` is not to own `.labels.app`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) members: BTreeSet<Element>,
    /// Subtrees; none of them is empty.
    pub(super) children: BTreeMap<Element, Set>,
}

impl Set {
    /// The set of these paths of members.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.iter().map(|name| Element::field(*name)));
        }
        set
    }

    /// Adds one path. The empty path is the whole object, which nobody owns.
    pub fn insert(&mut self, path: impl IntoIterator<Item = Element>) {
        let mut path = path.into_iter().peekable();
        let mut node = self;
        while let Some(element) = path.next() {
            if path.peek().is_none() {
                node.members.insert(element);
                return;
            }
            node = node.children.entry(element).or_default();
        }
    }

    /// Puts a subtree below `element`, unless it is empty.
    pub(super) fn attach(&mut self, element: &Element, below: Self) {
        if !below.is_empty() {
            let place = self.children.entry(element.clone()).or_default();
            *place = std::mem::take(place).union(below);
        }
    }

    /// Whether there is no path in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// Whether this very path is a member.
    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else {
            return false;
        };
        let node = parents.iter().try_fold(self, |node, element| node.children.get(element));
        node.is_some_and(|node| node.members.contains(last))
    }

    /// Everything in either.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        for (element, below) in other.children {
            let place = self.children.entry(element).or_default();
            *place = std::mem::take(place).union(below);
        }
        self
    }

    /// Everything in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let both = self.children.iter().filter_map(|(element, below)| {
            let common = below.intersection(other.children.get(element)?);
            (!common.is_empty()).then(|| (element.clone(), common))
        });
        Self { members, children: both.collect() }
    }

    /// Everything here that is not in `other`, path by path.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// Everything here that is neither in `other` nor below one of its members.
    #[must_use]
    pub fn difference_below(&self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(&self, other: &Self, below_members: bool) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = self.children.iter().filter_map(|(element, below)| {
            if below_members && other.members.contains(element) {
                return None;
            }
            let left = match other.children.get(element) {
                Some(removed) => below.without(removed, below_members),
                None => below.clone(),
            };
            (!left.is_empty()).then(|| (element.clone(), left))
        });
        Self { members, children: rest.collect() }
    }

    /// Adds the fields that the schema names and that have members below them. Such fields are
    /// not owned (an object is there because something in it is), yet they go when all below goes.
    #[must_use]
    pub(super) fn with_named_fields(&self, node: Node<'_>) -> Self {
        let mut members = self.members.clone();
        members.extend(self.children.keys().filter(|element| node.names(element)).cloned());
        let children = self.children.iter().map(|(element, below)| {
            let filled = below.with_named_fields(node.below(element));
            (element.clone(), filled)
        });
        Self { members, children: children.collect() }
    }

    /// All paths, in the order in which Kubernetes lists them.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Path>) {
        for element in &self.members {
            let mut path = prefix.clone();
            path.push(element.clone());
            paths.push(Path(path));
        }
        for (element, below) in &self.children {
            prefix.push(element.clone());
            below.collect(prefix, paths);
            prefix.pop();
        }
    }
}
