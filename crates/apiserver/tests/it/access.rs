//! Who gets in, and what they may do.

mod authn;
mod authz;
mod escalation;
mod pki;
mod tls;
mod tokens;

use apiserver::access::Access;
use apiserver::tokens::Tokens;
use serde_json::Value;
use store::{Action, Change, Draft, Expect, Key, Store};

/// A store of its own for one test, with `Access` over it.
struct House {
    store: Store,
    access: Access,
    _folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store.db"), store::Options::default()).unwrap();
        let access = Access::new(store.clone(), Tokens::ephemeral().unwrap());
        Self { store, access, _folder: folder }
    }

    fn key(resource: &str, object: &Value) -> Key {
        let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        Key::new(resource, field("namespace"), field("name"))
    }

    async fn put(&self, resource: &str, object: &Value) {
        let key = Self::key(resource, object);
        let expect = self.store.get(&key).map_or(Expect::Absent, |entry| Expect::At(entry.revision));
        let text = object.to_string();
        let draft = Draft::new(format!("{},\"resourceVersion\":", &text[..text.len() - 1]), "}");
        let action = Action::Put(draft);
        self.store.write(Change { key, expect, action }).await.unwrap();
    }

    async fn remove(&self, resource: &str, namespace: &str, name: &str) {
        let key = Key::new(resource, namespace, name);
        let expect = Expect::At(self.store.get(&key).unwrap().revision);
        let action = Action::Delete(Draft::new("{\"resourceVersion\":", "}"));
        self.store.write(Change { key, expect, action }).await.unwrap();
    }

    /// Stores YAML documents of roles and bindings.
    async fn roles(&self, yaml: &str) {
        for document in yaml.split("---\n").filter(|text| !text.trim().is_empty()) {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let plural = object["kind"].as_str().unwrap().to_lowercase() + "s";
            self.put(&format!("rbac.authorization.k8s.io/{plural}"), &object).await;
        }
    }
}
