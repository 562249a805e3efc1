//! What every namespace starts with: the `default` ServiceAccount and the ConfigMap with the cluster's root certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Controller, Decision, Error, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Expression, Selector};
use serde_json::json;

const ACCOUNT: &str = "default";
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
const CERTIFICATE_KEY: &str = "ca.crt";
/// Only ConfigMaps with this label are cached: all others may be many and large.
const LABEL: &str = "orrery.dev/root-certificate";

/// Gives every namespace its account and certificate, again if someone removes them.
pub struct Account {
    /// The certificate of the authority that signed the API server's, in PEM.
    pub root_certificate: String,
}

/// A namespace and what it has.
pub struct Observed {
    namespace: Arc<Namespace>,
    account: bool,
    certificate: Option<Arc<ConfigMap>>,
}

impl Controller for Account {
    const NAME: &'static str = "orrery-service-account";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        let labelled = Selector::from(Expression::Exists(LABEL.to_owned()));
        Watches::of::<Namespace>()
            .mapped::<ServiceAccount>(|account, _| {
                namespace_of(account.metadata.name.as_deref(), ACCOUNT, &account.metadata)
            })
            .mapped_selected::<ConfigMap>(labelled, |map, _| {
                namespace_of(map.metadata.name.as_deref(), ROOT_CERTIFICATE, &map.metadata)
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(namespace) = view.cached::<Namespace>(key) else { return Ok(None) };
        if namespace.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let account = view.cached::<ServiceAccount>(&Key::new(&key.name, ACCOUNT)).is_some();
        let certificate = view.get::<ConfigMap>(&Key::new(&key.name, ROOT_CERTIFICATE)).await?;
        Ok(Some(Observed { namespace, account, certificate }))
    }

    fn decide(&self, observed: &Observed, _now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        let metadata = |name: &str| ObjectMeta {
            name: Some(name.to_owned()),
            namespace: observed.namespace.metadata.name.clone(),
            ..ObjectMeta::default()
        };
        if !observed.account {
            decision.create(&ServiceAccount { metadata: metadata(ACCOUNT), ..ServiceAccount::default() });
        }
        let data = BTreeMap::from([(CERTIFICATE_KEY.to_owned(), self.root_certificate.clone())]);
        let labels = BTreeMap::from([(LABEL.to_owned(), String::new())]);
        match &observed.certificate {
            None => {
                let mut metadata = metadata(ROOT_CERTIFICATE);
                metadata.labels = Some(labels);
                decision.create(&ConfigMap { metadata, data: Some(data), ..ConfigMap::default() });
            }
            Some(map) if map.data.as_ref() != Some(&data) => {
                decision.patch(&**map, json!({ "metadata": { "labels": labels }, "data": data }));
            }
            Some(_) => {}
        }
        decision
    }
}

fn namespace_of(name: Option<&str>, wanted: &str, metadata: &ObjectMeta) -> Vec<Key> {
    match &metadata.namespace {
        Some(namespace) if name == Some(wanted) => vec![Key::new("", namespace)],
        _ => Vec::new(),
    }
}
