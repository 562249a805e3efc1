//! What one kind alone needs, beside its schema.

use machinery::status::{Cause, Status};
use serde_json::Value;

use crate::server::ApiServer;
use crate::user::User;

pub mod definition;
pub mod event;
pub mod namespace;
pub mod persistent_volume_claim;
pub mod pod;
pub mod role;
pub mod secret;
pub mod service;

/// A write under way, as hooks see it.
pub struct Change<'a> {
    /// The server.
    pub server: &'a ApiServer,
    /// Who writes.
    pub user: &'a User,
    /// The new object.
    pub object: &'a mut Value,
    /// The object before, absent on creation.
    pub old: Option<&'a Value>,
    /// Subresource written through, empty for the object itself.
    pub subresource: &'a str,
    /// Nothing may be kept.
    pub dry_run: bool,
}

/// Code of one kind. Every method has an answer for kinds that need none.
pub trait Hooks: Send + Sync {
    /// Reads the client's words into the stored form, before defaults: what decoding does elsewhere.
    fn convert(&self, _change: &mut Change<'_>) {}

    /// Fills in what the server decides; nobody manages these fields.
    fn prepare(&self, _change: &mut Change<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Reserves what lies outside the object (an address, say), after it was found valid.
    fn reserve(&self, _change: &mut Change<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// What is wrong, beyond what the schema says.
    fn validate(&self, _object: &Value, _old: Option<&Value>, _subresource: &str) -> Vec<Cause> {
        Vec::new()
    }

    /// Whether the object may be deleted at all.
    fn admit_delete(&self, _object: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// How long deletion waits for someone to confirm it, in seconds. `asked` is the client's wish.
    fn grace(&self, _object: &Value, _asked: Option<u64>) -> u64 {
        0
    }

    /// Whether deletion is something others take part in, and is marked even when nobody is waited for.
    fn is_graceful(&self) -> bool {
        false
    }

    /// Whether the object is held beyond `metadata.finalizers`.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Marks the object when deletion begins.
    fn deleting(&self, _object: &mut Value) {}

    /// Gives back what `reserve` took for a new object that was not stored after all.
    fn abandoned(&self, _server: &ApiServer, _object: &Value) {}

    /// Called after the change is durable.
    fn written(&self, _server: &ApiServer, _object: &Value, _deleted: bool) {}
}

/// A kind with nothing of its own.
pub struct Plain;

impl Hooks for Plain {}
