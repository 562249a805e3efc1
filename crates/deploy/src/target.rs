use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::change::FieldChange;
use crate::failure::Failure;
use crate::resource::{Desired, Key, Owner};
use crate::state::Resource;
use crate::status::Health;

/// An object as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// What it is known by.
    pub key: Key,
    /// What makes it this one and no other of the same name.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// Whose it is, by what it says itself.
    pub owner: Owner,
    /// The object, in the target's words.
    pub object: Value,
}

/// What a write would change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// The fields; none when the object is as it should be.
    pub fields: Vec<FieldChange>,
}

/// An object that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// What the target wants to find in the state later.
    pub metadata: Map<String, Value>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// One request.
    pub request: Duration,
    /// Before a request is repeated for the first time; each next pause is twice as long.
    pub pause: Duration,
    /// A resource, until it works or is gone.
    pub settle: Duration,
    /// A resource that says it failed, until it is believed.
    pub doubt: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            pause: Duration::from_millis(100),
            settle: Duration::from_mins(2),
            doubt: Duration::from_secs(10),
        }
    }
}

/// Someone who is told what is being waited for.
pub type Tell<'a> = dyn Fn(&str) + Sync + 'a;

/// A place to deploy to. Every method may be called again after a failure: writes look first.
#[async_trait]
pub trait Target: Sync {
    /// Its types in the order of their phases.
    fn types(&self) -> &'static [&'static str];

    /// Where it is, as in `kubernetes:default`. A state belongs to one place.
    fn scope(&self) -> String;

    /// What must be there before anything is planned. The answer is what is worth a warning.
    async fn check(&self) -> Result<Vec<String>, Vec<Failure>>;

    /// The live objects under the keys of `desired` and of the state, and all others that carry our labels.
    async fn observe(&self, desired: &[Desired], known: &[Resource]) -> Result<Vec<Live>, Failure>;

    /// What creating, or updating `live`, would change; nothing is written.
    async fn preview(&self, desired: &Desired, live: Option<&Live>) -> Result<Preview, Failure>;

    /// Creates it. One that is there already is taken over if it is ours. `known` is what the earlier phases made.
    async fn create(&self, desired: &Desired, known: &[Resource]) -> Result<Written, Failure>;

    /// Changes the object with this uid, and no other.
    async fn update(&self, desired: &Desired, uid: &str, known: &[Resource]) -> Result<Written, Failure>;

    /// Deletes it if it is ours, and waits until it is gone. One that is not there is gone.
    async fn delete(&self, resource: &Resource) -> Result<(), Failure>;

    /// Waits until it works, and says through `progress` what it is waiting for.
    async fn settle(&self, key: &Key, progress: &Tell<'_>) -> Result<(), Failure>;

    /// Whether it works.
    fn health(&self, live: &Live) -> Health;
}
