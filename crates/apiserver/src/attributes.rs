//! What is asked: one request, reduced to what a rule can speak about.

use std::sync::Arc;

use crate::user::User;

/// One request, as authorization sees it. The router fills it in once per request.
///
/// A request for an object has a `resource`; any other (`/version`, `/metrics`) has only a `path`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Who asks.
    pub user: Arc<User>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or another word a
    /// rule may name (`escalate`, `bind`, `impersonate`). For paths: the HTTP method in lower case.
    pub verb: String,
    /// API group; empty is the core group.
    pub group: String,
    /// Plural resource; empty for a path.
    pub resource: String,
    /// `status`, `scale`, `log`, …, or empty.
    pub subresource: String,
    /// Namespace; empty for cluster-wide requests.
    pub namespace: String,
    /// Name of the object; empty when the request is about the collection.
    pub name: String,
    /// The URL path; only read when `resource` is empty.
    pub path: String,
}
