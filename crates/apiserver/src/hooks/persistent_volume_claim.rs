//! PersistentVolumeClaims: pending until someone binds them.

use machinery::status::Status;
use serde_json::json;

use super::{Change, Hooks};

/// Hooks of PersistentVolumeClaims.
pub struct Claim;

impl Hooks for Claim {
    fn prepare(&self, change: &mut Change<'_>) -> Result<(), Status> {
        if change.old.is_none() {
            change.object["status"] = json!({ "phase": "Pending" });
        }
        Ok(())
    }
}
