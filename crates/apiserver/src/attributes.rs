//! What is asked: one request, reduced to what a rule can speak about.

use crate::user::User;

/// One request, as authorization sees it. The router fills it in once per request.
///
/// A request for an object has a `resource`; any other (`/version`, `/metrics`) has only a `path`.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a User,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or another word a
    /// rule may name (`escalate`, `bind`, `impersonate`). For paths: the HTTP method in lower case.
    pub verb: &'a str,
    /// API group; empty is the core group.
    pub group: &'a str,
    /// Plural resource; empty for a path.
    pub resource: &'a str,
    /// `status`, `scale`, `log`, …, or empty.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-wide requests.
    pub namespace: &'a str,
    /// Name of the object; empty when the request is about the collection.
    pub name: &'a str,
    /// The URL path; only read when `resource` is empty.
    pub path: &'a str,
}

impl<'a> Attributes<'a> {
    /// A request for a path that is no resource.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Self { user, verb, group: "", resource: "", subresource: "", namespace: "", name: "", path }
    }
}
