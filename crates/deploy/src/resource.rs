use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// What a resource is known by: `configmap/shop-packdata`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Its type, one of the target's.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of a type and a name.
    pub fn new(type_: impl Into<String>, name: impl Into<String>) -> Self {
        Self { type_: type_.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.type_, self.name)
    }
}

/// A resource that should be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// What it is known by.
    pub key: Key,
    /// What it should be, in the target's words.
    pub body: Value,
    /// What creating it means, for people.
    pub summary: String,
    /// Resources that must be there first; it is not tried when one of them failed.
    pub needs: Vec<Key>,
}

/// A digest of a body: whether what we want has changed since we last wrote it.
pub(crate) fn digest(body: &Value) -> String {
    let bytes = Sha256::digest(body.to_string());
    bytes.iter().take(16).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Whose a live object is, by what it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It has our labels.
    Us,
    /// It has not; why.
    Other(String),
}
