//! The decision: a pure function of the roles, the bindings and the request.

use std::collections::HashMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::Deserialize;

use super::aggregate;
use super::rule::Rule;
use crate::attributes::Attributes;
use crate::user::{SERVICE_ACCOUNT_PREFIX, User};

/// May they, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes; the reason names the binding.
    Allowed(String),
    /// No rule says so. (Rules only ever allow.)
    NotAllowed,
}

impl Decision {
    /// Whether the answer is yes.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// Name and namespace, as in any object's metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) labels: HashMap<String, String>,
}

/// A Role or `ClusterRole`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Role {
    pub(super) metadata: Meta,
    pub(super) rules: Option<Vec<Rule>>,
    pub(super) aggregation_rule: Option<aggregate::Aggregation>,
}

/// A `RoleBinding` or `ClusterRoleBinding`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    metadata: Meta,
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// Which role a binding grants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct RoleRef {
    pub(super) kind: String,
    pub(super) name: String,
}

/// All roles and bindings at one moment.
#[derive(Debug, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, Vec<Rule>>,
    roles: HashMap<(String, String), Vec<Rule>>,
    cluster_bindings: Vec<Binding>,
    bindings: HashMap<String, Vec<Binding>>,
}

impl Policy {
    /// A policy from the JSON of its objects. What cannot be read grants nothing.
    pub fn new(
        cluster_roles: impl Iterator<Item = Bytes>,
        roles: impl Iterator<Item = Bytes>,
        cluster_bindings: impl Iterator<Item = Bytes>,
        bindings: impl Iterator<Item = Bytes>,
    ) -> Self {
        let roles = read::<Role>(roles)
            .map(|role| ((role.metadata.namespace, role.metadata.name), role.rules.unwrap_or_default()))
            .collect();
        let mut by_namespace = HashMap::<String, Vec<Binding>>::new();
        for binding in read::<Binding>(bindings) {
            by_namespace.entry(binding.metadata.namespace.clone()).or_default().push(binding);
        }
        Self {
            cluster_roles: aggregate::resolve(&read(cluster_roles).collect::<Vec<_>>()),
            roles,
            cluster_bindings: read(cluster_bindings).collect(),
            bindings: by_namespace,
        }
    }

    /// The rules of a `ClusterRole`, those it aggregates among them.
    pub(super) fn cluster_role(&self, name: &str) -> &[Rule] {
        self.cluster_roles.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Decides one request.
    pub fn decide(&self, request: &Attributes<'_>) -> Decision {
        let found = self.visit(request.user, request.namespace, |rule, binding, subject| {
            if rule.allows(request) {
                ControlFlow::Break(binding.granted_to(subject))
            } else {
                ControlFlow::Continue(())
            }
        });
        found.map_or(Decision::NotAllowed, |grant| Decision::Allowed(format!("RBAC: allowed by {grant}")))
    }

    /// Every rule that holds for the user in the namespace (cluster-wide only, when it is empty).
    pub fn rules_for(&self, user: &User, namespace: &str) -> Vec<&Rule> {
        let mut rules = Vec::new();
        self.visit::<()>(user, namespace, |rule, _, _| {
            rules.push(rule);
            ControlFlow::Continue(())
        });
        rules
    }

    /// The rules of the role that a binding in `namespace` refers to; `None` when there is no such role.
    pub(super) fn role(&self, namespace: &str, reference: &RoleRef) -> Option<&[Rule]> {
        match reference.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(&reference.name).map(Vec::as_slice),
            "Role" => self.roles.get(&(namespace.to_owned(), reference.name.clone())).map(Vec::as_slice),
            _ => None,
        }
    }

    fn visit<'a, T>(
        &'a self,
        user: &User,
        namespace: &str,
        mut each: impl FnMut(&'a Rule, &'a Binding, &'a Subject) -> ControlFlow<T>,
    ) -> Option<T> {
        let local = self.bindings.get(namespace).filter(|_| !namespace.is_empty());
        for binding in self.cluster_bindings.iter().chain(local.into_iter().flatten()) {
            let Some(subject) = binding.subjects.iter().flatten().find(|subject| subject.is(user)) else { continue };
            let rules = self.role(&binding.metadata.namespace, &binding.role_ref).unwrap_or_default();
            for rule in rules {
                if let ControlFlow::Break(found) = each(rule, binding, subject) {
                    return Some(found);
                }
            }
        }
        None
    }
}

fn read<T: for<'de> Deserialize<'de>>(objects: impl Iterator<Item = Bytes>) -> impl Iterator<Item = T> {
    objects.filter_map(|bytes| {
        serde_json::from_slice(&bytes)
            .inspect_err(|error| tracing::error!(%error, "a stored role or binding cannot be read and grants nothing"))
            .ok()
    })
}

impl Binding {
    fn granted_to(&self, subject: &Subject) -> String {
        let Meta { name, namespace, .. } = &self.metadata;
        let RoleRef { kind, name: role } = &self.role_ref;
        if namespace.is_empty() {
            format!("ClusterRoleBinding \"{name}\" of {kind} \"{role}\" to {}", subject.describe())
        } else {
            format!("RoleBinding \"{name}/{namespace}\" of {kind} \"{role}\" to {}", subject.describe())
        }
    }
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.is_in(&self.name),
            "ServiceAccount" => user
                .name
                .strip_prefix(SERVICE_ACCOUNT_PREFIX)
                .and_then(|rest| rest.split_once(':'))
                .is_some_and(|(namespace, name)| namespace == self.namespace && name == self.name),
            _ => false,
        }
    }

    fn describe(&self) -> String {
        if self.kind == "ServiceAccount" {
            format!("ServiceAccount \"{}/{}\"", self.name, self.namespace)
        } else {
            format!("{} \"{}\"", self.kind, self.name)
        }
    }
}
