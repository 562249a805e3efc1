//! Who is asking.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Members may do anything; RBAC is not asked, so a broken role can always be mended.
pub const MASTERS: &str = "system:masters";
/// Everyone who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everyone who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of a caller without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// All service accounts; those of one namespace add `:NAMESPACE`.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Start of a service account's user name; `NAMESPACE:NAME` follows.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// An identity. It travels with the request as an `http` extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user name, as `kubectl auth whoami` prints it.
    #[serde(rename = "username", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Tells apart two users of one name over time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups, in the order the credential gave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What else the credential says (the Pod a token is bound to, for one).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A trusted identity that RBAC does not limit: the plane's own parts use it in-process.
    pub fn master(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: vec![MASTERS.into(), AUTHENTICATED.into()], ..Self::default() }
    }

    /// The caller without credentials.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// A service account.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: vec![SERVICE_ACCOUNTS.into(), format!("{SERVICE_ACCOUNTS}:{namespace}"), AUTHENTICATED.into()],
            extra: BTreeMap::new(),
        }
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|mine| mine == group)
    }
}
