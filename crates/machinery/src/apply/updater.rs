//! The heart of ownership: what a write does to the owners of fields.

use std::collections::BTreeMap;

use serde_json::Value;

use super::conflict::Conflicts;
use super::managers::{Identity, Managers, Owned};
use super::set::Set;
use super::shape::Node;
use super::typed::{self, Comparison};
use super::{Kind, reconcile};

/// Computes with one kind in all its versions.
pub(super) struct Updater<'a> {
    kind: &'a Kind<'a>,
    ignored: Set,
}

impl<'a> Updater<'a> {
    pub(super) fn new(kind: &'a Kind<'a>) -> Self {
        Self { kind, ignored: Set::of_fields(kind.ignored) }
    }

    fn node(&self) -> Node<'a> {
        Node::root(self.kind.schema)
    }

    /// The schema of a version; `None` when it is served no longer.
    fn node_of(&self, api_version: &str) -> Option<Node<'a>> {
        if api_version == self.kind.api_version {
            return Some(self.node());
        }
        let other = self.kind.other_versions.iter().find(|(version, _)| *version == api_version);
        other.map(|(_, schema)| Node::root(schema))
    }

    /// Ownership after a write other than apply: who changed a field owns it now. Returns the
    /// fields that the write changed and the managers left to the others.
    pub(super) fn update(&self, live: &Value, new: &Value, managers: Managers) -> (Set, Managers) {
        let managers = self.reconcile(managers);
        let (managers, comparison) = self.take_over(live, new, managers, None);
        let changed = comparison.modified.union(comparison.added).difference_below(&self.ignored);
        (changed, managers)
    }

    /// Merges a configuration into the live object. Without `force`, fields that others own with
    /// another value are conflicts.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managers: Managers,
        applier: &Identity,
        force: bool,
    ) -> Result<(Value, Managers), Conflicts> {
        let mut managers = self.reconcile(managers);
        let merged = typed::merge(self.node(), live, config);
        let fields = typed::fields(self.node(), config).difference_below(&self.ignored);
        let time = managers.0.get(applier).and_then(|owned| owned.time.clone());
        let owned = Owned { fields, api_version: self.kind.api_version.to_owned(), time };
        let last = managers.0.insert(applier.clone(), owned);
        let pruned = last.map_or_else(|| merged.clone(), |last| self.prune(&merged, &managers, &last));
        if !force {
            let conflicts = self.conflicts(live, &pruned, &managers, applier);
            if !conflicts.is_empty() {
                return Err(conflicts);
            }
        }
        let (managers, _) = self.take_over(live, &pruned, managers, Some(applier));
        Ok((pruned, managers))
    }

    fn conflicts(&self, live: &Value, new: &Value, managers: &Managers, applier: &Identity) -> Conflicts {
        let mut comparisons = Comparisons::new(self, live, new);
        let mut conflicts = Conflicts::default();
        for (identity, owned) in managers.0.iter().filter(|(identity, _)| *identity != applier) {
            if let Some(comparison) = comparisons.at(&owned.api_version) {
                let changed = comparison.modified.clone().union(comparison.added.clone());
                let contested = owned.fields.intersection(&changed);
                if !contested.is_empty() {
                    conflicts.0.insert(identity.clone(), contested);
                }
            }
        }
        conflicts
    }

    /// Takes what changed or went from everybody but `writer`. Managers of versions that are no
    /// longer served go.
    fn take_over(
        &self,
        live: &Value,
        new: &Value,
        mut managers: Managers,
        writer: Option<&Identity>,
    ) -> (Managers, Comparison) {
        let mut comparisons = Comparisons::new(self, live, new);
        managers.0.retain(|identity, owned| {
            if Some(identity) == writer {
                return true;
            }
            let Some(comparison) = comparisons.at(&owned.api_version) else {
                return false;
            };
            owned.fields = owned
                .fields
                .difference(&comparison.modified)
                .difference(&comparison.added)
                .difference(&comparison.removed);
            true
        });
        managers.drop_empty();
        let comparison = comparisons.at(self.kind.api_version).cloned().unwrap_or_default();
        (managers, comparison)
    }

    /// Removes what the applier applied last time, does not apply now, and nobody else owns.
    fn prune(&self, merged: &Value, managers: &Managers, last: &Owned) -> Value {
        let Some(node) = self.node_of(&last.api_version).filter(|_| !last.fields.is_empty()) else {
            return merged.clone();
        };
        let last_fields = last.fields.with_named_fields(node);
        let mut pruned = typed::remove(node, merged, &last_fields);
        for (version, owned) in owned_by_version(managers, &last.api_version) {
            if let Some(node) = self.node_of(&version) {
                let all = typed::fields(node, merged).with_named_fields(node);
                let kept = typed::fields(node, &pruned).with_named_fields(node).union(owned.with_named_fields(node));
                pruned = typed::remove(node, merged, &all.difference(&kept));
            }
        }
        let all = typed::fields(node, merged).with_named_fields(node);
        let kept = typed::fields(node, &pruned).with_named_fields(node);
        typed::remove(node, merged, &all.difference(&kept).intersection(&last_fields))
    }

    fn reconcile(&self, mut managers: Managers) -> Managers {
        for owned in managers.0.values_mut() {
            if let Some(node) = self.node_of(&owned.api_version) {
                owned.fields = reconcile::with_schema(node, std::mem::take(&mut owned.fields));
            }
        }
        managers
    }
}

/// What all managers own, by version; the version pruned in comes first.
fn owned_by_version(managers: &Managers, first: &str) -> Vec<(String, Set)> {
    let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
    for owned in managers.0.values() {
        let fields = by_version.entry(&owned.api_version).or_default();
        *fields = std::mem::take(fields).union(owned.fields.clone());
    }
    let mut versions: Vec<(String, Set)> =
        by_version.into_iter().map(|(version, fields)| (version.to_owned(), fields)).collect();
    versions.sort_by_key(|(version, _)| version != first);
    versions
}

/// The comparison of two objects in each version, made when asked for.
struct Comparisons<'a> {
    updater: &'a Updater<'a>,
    live: &'a Value,
    new: &'a Value,
    made: BTreeMap<String, Comparison>,
}

impl<'a> Comparisons<'a> {
    fn new(updater: &'a Updater<'a>, live: &'a Value, new: &'a Value) -> Self {
        Self { updater, live, new, made: BTreeMap::new() }
    }

    fn at(&mut self, version: &str) -> Option<&Comparison> {
        let node = self.updater.node_of(version)?;
        Some(
            self.made
                .entry(version.to_owned())
                .or_insert_with(|| typed::compare(node, self.live, self.new).without(&self.updater.ignored)),
        )
    }
}
