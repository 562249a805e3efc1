//! Conflicts: fields that somebody else owns with another value.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::managers::{Identity, Operation};
use super::path::Path;
use super::set::Set;
use crate::status::{Cause, Status};

/// The fields that stand in the way of an apply, by their owners.
#[derive(Debug, Default)]
pub(super) struct Conflicts(pub(super) BTreeMap<Identity, Set>);

impl Conflicts {
    /// What is left when some fields may be taken.
    pub(super) fn except(&self, allowed: &Set) -> Self {
        let left = self.0.iter().map(|(identity, fields)| (identity.clone(), fields.difference(allowed)));
        Self(left.filter(|(_, fields)| !fields.is_empty()).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The refusal, in the words that clients look for.
    pub(super) fn to_status(&self) -> Status {
        let listed: Vec<(String, Vec<Path>)> =
            self.0.iter().map(|(identity, fields)| (name(identity), fields.paths())).collect();
        let mut status = Status::new(409, "Conflict", message(&listed));
        for (manager, paths) in listed {
            status.details.causes.extend(paths.iter().map(|path| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {manager}"),
                field: path.to_string(),
            }));
        }
        status
    }
}

fn message(listed: &[(String, Vec<Path>)]) -> String {
    let count: usize = listed.iter().map(|(_, paths)| paths.len()).sum();
    if let ([(manager, paths)], 1) = (listed, count) {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths[0]);
    }
    let mut lines = Vec::new();
    for (manager, paths) in listed {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(paths.iter().map(|path| format!("- {path}")));
    }
    format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
}

fn name(identity: &Identity) -> String {
    let mut name = format!("{:?}", identity.manager);
    if !identity.subresource.is_empty() {
        let _ = write!(name, " with subresource {:?}", identity.subresource);
    }
    if identity.operation == Operation::Update {
        let _ = write!(name, " using {}", identity.api_version);
    }
    name
}
