//! Names of things: what is reconciled, and which object a write is meant for.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Map, Value};

/// Namespace and name. The namespace of a cluster-scoped object is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl Key {
    /// A key from its two halves.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// The path under which objects of a kind are listed, in one namespace or (when empty) in all of them.
pub(crate) fn collection_path(resource: &ApiResource, namespace: &str) -> String {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let mut path = format!("{root}/{}", resource.api_version);
    if !namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(namespace);
    }
    path.push('/');
    path.push_str(&resource.plural);
    path
}

/// One exact version of one exact object. Every change of an existing object names one, and is refused by the server
/// when the object has changed or was replaced since: a stale cache or a deposed leader can do no harm.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The kind.
    pub resource: ApiResource,
    /// Where it is.
    pub key: Key,
    /// Which incarnation.
    pub uid: String,
    /// Which version of it was observed.
    pub resource_version: String,
}

impl Target {
    /// The target for an object as it was observed.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self::of_dynamic(object, &())
    }

    /// The same for kinds known only at run time.
    pub fn of_dynamic<K: Resource>(object: &K, dynamic: &K::DynamicType) -> Self {
        let meta = object.meta();
        Self {
            resource: ApiResource::erase::<K>(dynamic),
            key: Key::of(object),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
        }
    }

    /// How Events name the object.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.resource.api_version.clone()),
            kind: Some(self.resource.kind.clone()),
            namespace: Some(self.key.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: Some(self.key.name.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
            ..ObjectReference::default()
        }
    }
}

/// What an object should be, as JSON, with its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The kind.
    pub resource: ApiResource,
    /// The object itself.
    pub value: Value,
}

impl Object {
    /// From a typed object; kind and apiVersion are filled in.
    pub fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        let resource = ApiResource::erase::<K>(&());
        let mut value = serde_json::to_value(object).expect("a Kubernetes type serializes to JSON");
        if let Value::Object(fields) = &mut value {
            fields.insert("apiVersion".into(), resource.api_version.clone().into());
            fields.insert("kind".into(), resource.kind.clone().into());
            fields.retain(|_, field| !field.is_null());
        }
        Self { resource, value }
    }

    /// Where it goes.
    pub fn key(&self) -> Key {
        let text = |field: &str| self.metadata().get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Key { namespace: text("namespace"), name: text("name") }
    }

    pub(crate) fn metadata(&self) -> &Map<String, Value> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.value.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Pod;

    #[test]
    fn paths_follow_group_and_scope() {
        let pods = ApiResource::erase::<Pod>(&());
        let deployments = ApiResource::erase::<Deployment>(&());
        assert_eq!(collection_path(&pods, "a"), "/api/v1/namespaces/a/pods");
        assert_eq!(collection_path(&pods, ""), "/api/v1/pods");
        assert_eq!(collection_path(&deployments, "a"), "/apis/apps/v1/namespaces/a/deployments");
    }

    #[test]
    fn an_object_says_its_kind() {
        let object = Object::of(&Pod::default());
        assert_eq!(object.value["kind"], "Pod");
        assert_eq!(object.value["apiVersion"], "v1");
    }
}
