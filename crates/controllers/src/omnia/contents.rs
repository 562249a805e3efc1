//! Secrets and `ConfigMaps` that something here names: whether they are there, and a digest of what they hold. Their content
//! goes no further.

use std::collections::{BTreeMap, BTreeSet};

use api::omnia::names::digest;
use engine::{Cached, Error, Key, View};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;

/// The cache knows only names of Secrets.
pub(super) type SecretName = PartialObjectMeta<Secret>;
/// And of `ConfigMaps`.
pub(super) type ConfigMapName = PartialObjectMeta<ConfigMap>;

/// What is known of a Secret or a `ConfigMap`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its keys, each with a digest of its value.
    pub keys: BTreeMap<String, String>,
}

impl Contents {
    fn of(values: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let digested = |bytes: Vec<u8>| digest([hex::encode(bytes).as_str()]);
        Self { keys: values.into_iter().map(|(key, value)| (key, digested(value))).collect() }
    }
}

/// The Secrets of these names, as far as they exist.
pub(super) async fn secrets(
    namespace: &str,
    names: BTreeSet<String>,
    view: &View,
) -> Result<BTreeMap<String, Contents>, Error> {
    let contents = |secret: &Secret| {
        let data = secret.data.clone().unwrap_or_default();
        Contents::of(data.into_iter().map(|(key, value)| (key, value.0)))
    };
    read(namespace, names, view, contents).await
}

/// The `ConfigMaps` of these names, as far as they exist.
pub(super) async fn config_maps(
    namespace: &str,
    names: BTreeSet<String>,
    view: &View,
) -> Result<BTreeMap<String, Contents>, Error> {
    let contents = |map: &ConfigMap| {
        let texts = map.data.clone().unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
        let bytes = map.binary_data.clone().unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0));
        Contents::of(texts.chain(bytes))
    };
    read(namespace, names, view, contents).await
}

async fn read<K: Cached>(
    namespace: &str,
    names: BTreeSet<String>,
    view: &View,
    contents: fn(&K) -> Contents,
) -> Result<BTreeMap<String, Contents>, Error> {
    let mut found = BTreeMap::new();
    for name in names {
        if let Some(object) = view.live::<K>(&Key::new(namespace, &name)).await? {
            found.insert(name, contents(&object));
        }
    }
    Ok(found)
}
