//! Roles and bindings: nobody grants what they do not hold.

use machinery::status::Status;
use serde_json::Value;

use super::{Change, Hooks};
use crate::authz::escalation::RoleWrite;

/// Hooks of roles and bindings; the plural of the kind it is for.
pub struct Grants(pub &'static str);

impl Hooks for Grants {
    fn reserve(&self, change: &mut Change<'_>) -> Result<(), Status> {
        let field = |name: &str| change.object["metadata"][name].as_str().unwrap_or_default();
        let new: &Value = change.object;
        change.server.access().authorizer().check_role_write(&RoleWrite {
            user: change.user,
            resource: self.0,
            namespace: field("namespace"),
            name: field("name"),
            new,
            old: change.old,
        })
    }
}
