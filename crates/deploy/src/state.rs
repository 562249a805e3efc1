//! What we made: the memory between one run and the next.

mod file;
mod last_plan;
mod lock;
pub mod secret;
mod store;

pub use file::FileStore;
pub use last_plan::LastPlan;
pub use lock::Lock;
pub use secret::SecretStore;
pub use store::Store;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::{Category, Failure};
use crate::resource::Key;
use crate::target::Written;

/// Where the digest of what was last written is kept, in a resource's metadata.
const DIGEST: &str = "digest";

/// How a resource last fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// We created it.
    Created,
    /// We changed it, or took it over.
    Updated,
    /// It could not be written, or does not work; whether it is there must be looked up.
    Failed,
    /// A dry run would have created it. It is not there.
    Planned,
    /// A word of a newer version.
    #[serde(untagged)]
    Other(String),
}

/// A resource that we made, or tried to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// What it is known by.
    #[serde(flatten)]
    pub key: Key,
    /// The object that it is; nothing when none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The version of the object that we wrote or saw last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// How it last fared.
    pub status: Status,
    /// What the target wants to remember.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// What a newer version wrote; kept as it is.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Resource {
    /// One that is not there yet.
    pub fn new(key: Key, status: Status) -> Self {
        Self { key, uid: None, resource_version: None, status, metadata: Map::new(), rest: Map::new() }
    }

    pub(crate) fn digest(&self) -> Option<&str> {
        self.metadata.get(DIGEST)?.as_str()
    }

    pub(crate) fn wrote(&mut self, written: &Written, digest: &str) {
        self.uid = Some(written.uid.clone());
        self.resource_version = Some(written.resource_version.clone());
        self.metadata.extend(written.metadata.clone());
        self.metadata.insert(DIGEST.into(), digest.into());
    }
}

/// Which pack, in which of its environments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployment {
    /// The pack.
    pub pack_id: String,
    /// Its version.
    pub version: String,
    /// One of several deployments of the pack, if it has a name.
    pub environment: Option<String>,
}

/// What we made, as a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The pack.
    #[serde(default)]
    pub pack_id: String,
    /// The version that was deployed last.
    #[serde(default)]
    pub version: String,
    /// Of all states that follow from one another; empty before the first apply.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lineage: String,
    /// Counts the changes of the state.
    #[serde(default)]
    pub serial: u64,
    /// Where the resources are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The environment that was deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// A dry run wrote this. What it would have created is `planned`; the rest is as it was before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What we made.
    #[serde(default)]
    pub resources: Vec<Resource>,
    /// The plan that was applied last, or what a refresh found since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_plan: Option<LastPlan>,
    /// What a newer version wrote; kept as it is.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl State {
    /// Reads a state; no text means that nothing was deployed yet. What a dry run only planned is not there.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut state: Self = serde_json::from_str(text).map_err(|error| {
            Failure::new(Category::Configuration, format!("the state cannot be read: {error}"))
                .hint("restore it, or remove it: live objects are then adopted by their labels")
        })?;
        state.resources.retain(|resource| resource.status != Status::Planned);
        state.dry_run = false;
        Ok(state)
    }

    /// As a document.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a state is JSON")
    }

    /// The entry of a resource.
    pub fn find(&self, key: &Key) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.key == *key)
    }

    /// The entry of a resource, made when it is not there.
    pub(crate) fn entry(&mut self, key: &Key) -> &mut Resource {
        let at = self.resources.iter().position(|resource| resource.key == *key).unwrap_or_else(|| {
            self.resources.push(Resource::new(key.clone(), Status::Failed));
            self.resources.len() - 1
        });
        &mut self.resources[at]
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        self.resources.retain(|resource| resource.key != *key);
    }

    /// Refuses a place that is not where the resources are.
    pub(crate) fn belongs(&self, scope: &str) -> Result<(), Failure> {
        match &self.scope {
            Some(other) if other != scope && !self.resources.is_empty() => {
                let message = format!("the state is of {other}, and the configuration says {scope}");
                let hint = "destroy the old deployment first, with its own configuration";
                Err(Failure::new(Category::Conflict, message).hint(hint))
            }
            _ => Ok(()),
        }
    }
}

/// Someone who keeps the state while work goes on.
#[async_trait]
pub trait Keeper: Send {
    /// Keeps a state. A failure stops the work: someone else may have taken over.
    async fn keep(&mut self, state: &State) -> Result<(), Failure>;
}

/// Whoever called keeps it.
#[async_trait]
impl Keeper for () {
    async fn keep(&mut self, _: &State) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_version_wrote_survives() {
        let text = r#"{"pack_id":"p","version":"1.0.0","lineage":"l","serial":7,"resources":[{"type":"hologram","name":"h","uid":"u","status":"projected","metadata":{"api":"x"},"colour":"blue"}],"mood":"good"}"#;
        let state = State::parse(text).expect("a state");
        assert_eq!(serde_json::from_str::<Value>(&state.to_text()).ok(), serde_json::from_str(text).ok());
    }

    #[test]
    fn a_dry_run_is_never_taken_for_real() {
        let mut state = State { serial: 1, ..State::default() };
        state.entry(&Key::new("configmap", "real")).status = Status::Created;
        state.entry(&Key::new("configmap", "dream")).status = Status::Planned;
        state.dry_run = true;
        let read = State::parse(&state.to_text()).expect("a state");
        assert_eq!(read.resources.len(), 1, "{read:?}");
        assert!(!read.dry_run && read.find(&Key::new("configmap", "real")).is_some());
    }

    #[test]
    fn a_broken_state_says_what_to_do() {
        let failure = State::parse("{").expect_err("broken");
        assert_eq!(failure.category, Category::Configuration);
        assert!(failure.to_string().contains("[hint: restore it"), "{failure}");
    }
}
