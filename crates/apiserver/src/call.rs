//! One request to a kind: everything the verbs need, gathered once.

use std::sync::Arc;

use http::HeaderMap;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::Value;
use store::{Entry, Key, Scope};

use crate::kinds::{Kind, Storage};
use crate::negotiate::{Accept, Form, Include};
use crate::object::{self, Object};
use crate::request::{Query, Target, Verb};
use crate::server::ApiServer;
use crate::user::User;

/// One request to a kind.
pub struct Call {
    /// The server.
    pub server: ApiServer,
    /// The row.
    pub kind: Arc<Kind>,
    /// What the path says.
    pub target: Target,
    /// What the query says.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// What the client wants to read.
    pub accept: Accept,
    /// Who asks.
    pub user: Arc<User>,
    /// What to tell the client beside the answer.
    pub warnings: Mutex<Vec<String>>,
}

impl Call {
    /// A request of the server to itself, about an object of the cluster.
    pub fn internal(server: &ApiServer, kind: &Arc<Kind>, verb: Verb, name: &str) -> Self {
        Self {
            server: server.clone(),
            kind: kind.clone(),
            target: Target {
                verb,
                group: kind.group.clone(),
                version: kind.version.clone(),
                namespace: String::new(),
                resource: kind.plural.clone(),
                name: name.to_owned(),
                subresource: String::new(),
            },
            query: Query::default(),
            headers: HeaderMap::new(),
            accept: Accept { form: Form::Object, version: "v1", include: Include::None, pretty: false },
            user: Arc::new(User::master("system:apiserver")),
            warnings: Mutex::default(),
        }
    }

    /// Where the kind is stored.
    pub fn storage(&self) -> Result<&Storage, Status> {
        self.kind.storage.as_ref().ok_or_else(|| {
            Status::method_not_allowed("the server does not allow this method on the requested resource")
        })
    }

    /// The key of an object of this kind in this request's namespace.
    pub fn key(&self, name: &str) -> Result<Key, Status> {
        Ok(Key::new(self.storage()?.resource.clone(), self.namespace(), name))
    }

    /// The namespace of stored objects; a Namespace's own is none.
    pub fn namespace(&self) -> &str {
        if self.kind.namespaced { &self.target.namespace } else { "" }
    }

    /// What a list or watch covers.
    pub fn scope(&self) -> Result<Scope, Status> {
        let resource = self.storage()?.resource.clone();
        Ok(if self.namespace().is_empty() {
            Scope::all(resource)
        } else {
            Scope::namespace(resource, self.namespace())
        })
    }

    /// The stored object, or 404.
    pub fn entry(&self, name: &str) -> Result<Arc<Entry>, Status> {
        self.server.store().get(&self.key(name)?).ok_or_else(|| self.not_found(name))
    }

    /// A stored object as clients of this version read it.
    pub fn read(&self, entry: &Entry) -> Object {
        if self.kind.reads_stored_bytes() {
            Object::Bytes(entry.value.clone())
        } else {
            Object::Value(self.value(entry))
        }
    }

    /// A stored object of this version, taken apart.
    pub fn value(&self, entry: &Entry) -> Value {
        let mut value = object::parse(&entry.value);
        self.kind.from_stored(&mut value);
        value
    }

    /// Tells the client something beside the answer.
    pub fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().push(text.into());
    }

    /// 404 for an object of this kind.
    pub fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.kind.group, &self.kind.plural, name)
    }

    /// 409 for an object of this kind.
    pub fn conflict(&self, name: &str, why: impl std::fmt::Display) -> Status {
        Status::conflict(&self.kind.group, &self.kind.plural, name, why)
    }

    /// 403 for an object of this kind.
    pub fn forbidden(&self, name: &str, why: impl std::fmt::Display) -> Status {
        Status::forbidden(&self.kind.group, &self.kind.plural, name, why)
    }

    /// Who manages the fields this request writes: what it says, or the program that sent it.
    pub fn field_manager(&self) -> String {
        if !self.query.field_manager.is_empty() {
            return self.query.field_manager.clone();
        }
        let agent =
            self.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let program = agent.split('/').next().unwrap_or_default().trim();
        let program: String = program.chars().filter(|c| !c.is_control()).take(128).collect();
        if program.is_empty() { "unknown".to_owned() } else { program }
    }
}
