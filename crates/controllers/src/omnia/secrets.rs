//! Secrets that something here names: whether they are there, and a digest of what they hold. Their content goes no further.

use std::collections::{BTreeMap, BTreeSet};

use api::omnia::names::digest;
use engine::{Error, Key, View};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;

/// The cache knows only names of Secrets.
pub(super) type SecretName = PartialObjectMeta<Secret>;

/// What is known of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its keys, each with a digest of its value.
    pub keys: BTreeMap<String, String>,
}

/// The Secrets of these names, as far as they exist.
pub(super) async fn read(
    namespace: &str,
    names: BTreeSet<String>,
    view: &View,
) -> Result<BTreeMap<String, Contents>, Error> {
    let mut found = BTreeMap::new();
    for name in names {
        if let Some(secret) = view.live::<Secret>(&Key::new(namespace, &name)).await? {
            let data = secret.data.clone().unwrap_or_default();
            let digested = |bytes: &[u8]| digest([hex::encode(bytes).as_str()]);
            let keys = data.into_iter().map(|(key, value)| (key, digested(&value.0))).collect();
            found.insert(name, Contents { keys });
        }
    }
    Ok(found)
}
