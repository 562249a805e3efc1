//! PersistentVolumeClaims: pending until someone binds them.

use machinery::field::{self, Path};
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

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

    fn validate(&self, claim: &Value, old: Option<&Value>, subresource: &str) -> Vec<Cause> {
        let spec = Path::new("spec");
        let mut causes = Vec::new();
        if claim["spec"]["accessModes"].as_array().is_none_or(Vec::is_empty) {
            causes.push(field::required(&spec.child("accessModes"), "at least 1 access mode is required"));
        }
        if claim["spec"]["resources"]["requests"].get("storage").is_none() {
            causes.push(field::required(&spec.child("resources").key("storage"), ""));
        }
        if let Some(old) = old.filter(|_| subresource.is_empty())
            && !same_claim(claim, old)
        {
            let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                          bound claims";
            causes.push(field::forbidden(&spec, detail));
        }
        causes
    }
}

/// Whether two claims ask for the same, but for what may change: the size, and the volume while it is being bound.
fn same_claim(claim: &Value, old: &Value) -> bool {
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            for field in ["resources", "volumeAttributesClassName"] {
                fields.remove(field);
            }
            if old["spec"].get("volumeName").is_none() {
                fields.remove("volumeName");
                fields.remove("storageClassName");
            }
        }
        spec
    };
    fixed(claim) == fixed(old)
}
