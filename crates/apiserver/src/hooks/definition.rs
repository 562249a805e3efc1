//! CustomResourceDefinitions: checked as a whole, served as soon as they are stored.

use machinery::field::{self, Path};
use machinery::status::{Cause, Status};
use serde_json::Value;

use super::{Change, Hooks};
use crate::crd::{self, conditions};
use crate::object;
use crate::server::ApiServer;

/// Hooks of CustomResourceDefinitions.
pub struct Definition;

impl Hooks for Definition {
    fn prepare(&self, change: &mut Change<'_>) -> Result<(), Status> {
        if change.subresource == "status" {
            return Ok(());
        }
        if change.object["spec"]["names"].is_object() {
            conditions::judge(&change.server.kinds().table(), change.object);
        }
        Ok(())
    }

    fn validate(&self, definition: &Value, _old: Option<&Value>, subresource: &str) -> Vec<Cause> {
        if subresource == "status" {
            return machinery::crd::stored_versions(definition);
        }
        let mut causes = Vec::new();
        if definition["spec"]["conversion"]["strategy"] == "Webhook" {
            let path = Path::new("spec.conversion");
            let detail =
                "conversion webhooks are not served; keep one version or versions with the same fields (strategy None)";
            causes.push(field::forbidden(&path.child("strategy"), detail));
        }
        causes
    }

    /// Its objects go first: deletion always begins with the finalizer that `deleting` adds.
    fn is_held(&self, definition: &Value) -> bool {
        !object::is_deleting(definition)
    }

    fn deleting(&self, definition: &mut Value) {
        let mut finalizers = object::finalizers(definition);
        if !finalizers.iter().any(|finalizer| finalizer == crd::FINALIZER) {
            finalizers.push(crd::FINALIZER.into());
        }
        object::set_finalizers(definition, &finalizers);
        let message = "CustomResource deletion is in progress";
        conditions::set(definition, "Terminating", true, "InstanceDeletionPending", message);
    }

    fn written(&self, server: &ApiServer, definition: &Value, deleted: bool) {
        crd::install(server, definition, deleted);
    }
}
