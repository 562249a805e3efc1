//! Who may do what: role-based access control.
//!
//! [`Policy`] decides and is pure; [`Authorizer`] keeps one that matches the store. Each decision sees every
//! role and binding written before it: a revoked right is gone with the answer to the revoking write.

mod aggregate;
pub mod bootstrap;
pub mod escalation;
pub(crate) mod filling;
mod policy;
mod rule;
mod wording;

use std::sync::Arc;

use machinery::status::Status;
use parking_lot::Mutex;
use store::{Entry, Paging, Revision, Scope, Store};

use crate::attributes::Attributes;
use crate::user::MASTERS;

pub use policy::{Decision, Policy};
pub use rule::Rule;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What a policy is made of, in the order that [`Policy::new`] takes it.
const SOURCES: [&str; 4] = [
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/clusterrolebindings",
    "rbac.authorization.k8s.io/rolebindings",
];

/// Decides requests by the roles and bindings in the store. Cheap to clone.
#[derive(Clone)]
pub struct Authorizer {
    store: Store,
    current: Arc<Mutex<Current>>,
}

/// The policy, and what it was made from.
#[derive(Default)]
struct Current {
    /// The store's revision when the policy was last compared with it.
    checked: Option<Revision>,
    /// Revisions of all roles and bindings in list order: unequal exactly when one of them changed.
    made_from: Vec<Revision>,
    policy: Arc<Policy>,
}

impl Authorizer {
    /// Decides by what `store` holds.
    pub fn new(store: Store) -> Self {
        Self { store, current: Arc::default() }
    }

    /// May they? `Err` is the 403 to answer with.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if self.decide(attributes).is_allowed() {
            return Ok(());
        }
        let Attributes { user, verb, group, resource, subresource, namespace, name, path } = *attributes;
        tracing::info!(
            target: "audit", user = %user.name, verb, group, resource, subresource, namespace, name, path, "denied"
        );
        Err(wording::forbidden(attributes))
    }

    /// The decision and its reason.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        // Not a role but a rule: the administrator can mend a plane whose roles are broken or gone.
        if attributes.user.is_in(MASTERS) {
            return Decision::Allowed(format!("{MASTERS} may do anything"));
        }
        self.policy().decide(attributes)
    }

    /// The policy as of now.
    pub fn policy(&self) -> Arc<Policy> {
        let mut current = self.current.lock();
        let revision = self.store.revision();
        if current.checked != Some(revision) {
            let sources = SOURCES.map(|resource| self.entries(resource));
            let made_from: Vec<Revision> = sources.iter().flatten().map(|entry| entry.revision).collect();
            if current.checked.is_none() || current.made_from != made_from {
                let [cluster_roles, roles, cluster_bindings, bindings] =
                    sources.map(|entries| entries.into_iter().map(|entry| entry.value.clone()));
                current.policy = Arc::new(Policy::new(cluster_roles, roles, cluster_bindings, bindings));
                current.made_from = made_from;
            }
            current.checked = Some(revision);
        }
        Arc::clone(&current.policy)
    }

    fn entries(&self, resource: &str) -> Vec<Arc<Entry>> {
        // Without a revision in the question the store has always an answer: the present.
        self.store.list(&Scope::all(resource), &Paging::default()).map(|page| page.entries).unwrap_or_default()
    }
}
