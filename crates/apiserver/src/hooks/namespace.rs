//! Namespaces: they end only when they are empty.

use machinery::status::Status;
use serde_json::{Value, json};

use super::{Change, Hooks};
use crate::object;

/// Hooks of Namespaces.
pub struct Namespace;

/// Held until the namespace controller has emptied it.
pub const FINALIZER: &str = "kubernetes";
/// Namespaces the plane itself lives in.
const PERMANENT: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Hooks for Namespace {
    fn prepare(&self, change: &mut Change<'_>) -> Result<(), Status> {
        match (change.old, change.subresource) {
            (None, _) => {
                let mut finalizers = object::strings(change.object["spec"].get("finalizers"));
                if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                    finalizers.push(FINALIZER.into());
                }
                change.object["spec"] = json!({ "finalizers": finalizers });
                change.object["status"] = json!({ "phase": "Active" });
            }
            // Only `/finalize` lets go.
            (Some(old), "") => object::put(change.object, "spec", old.get("spec").cloned()),
            (Some(_), _) => {}
        }
        Ok(())
    }

    fn admit_delete(&self, live: &Value) -> Result<(), Status> {
        let name = object::name(live);
        if PERMANENT.contains(&name) {
            return Err(Status::forbidden("", "namespaces", name, "this namespace may not be deleted"));
        }
        Ok(())
    }

    fn is_held(&self, live: &Value) -> bool {
        !object::strings(live["spec"].get("finalizers")).is_empty()
    }

    fn deleting(&self, live: &mut Value) {
        live["status"]["phase"] = json!("Terminating");
    }
}
