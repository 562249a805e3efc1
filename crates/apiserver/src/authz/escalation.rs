//! Nobody grants what they do not hold.
//!
//! Writing a role needs every right in it (or `escalate` on it); writing a binding needs every right of the
//! role it grants (or `bind` on that role).

use machinery::status::{Cause, Status};
use serde::Deserialize;
use serde_json::Value;

use super::policy::{Role, RoleRef};
use super::{Authorizer, GROUP, Rule};
use crate::attributes::Attributes;
use crate::user::User;

/// A write of a role or binding.
#[derive(Clone, Copy)]
pub struct RoleWrite<'a> {
    /// Who writes.
    pub user: &'a User,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// Namespace; empty for the cluster's.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// As it will be.
    pub new: &'a Value,
    /// As it is, when it is there.
    pub old: Option<&'a Value>,
}

impl Authorizer {
    /// Refuses a write that would grant more than the writer holds, or that moves a binding to another role.
    pub fn check_role_write(&self, write: &RoleWrite<'_>) -> Result<(), Status> {
        match write.resource {
            "roles" | "clusterroles" => self.check_role(write),
            "rolebindings" | "clusterrolebindings" => self.check_binding(write),
            _ => Ok(()),
        }
    }

    fn check_role(&self, write: &RoleWrite<'_>) -> Result<(), Status> {
        let same = |field: &str| write.old.is_some_and(|old| old.get(field) == write.new.get(field));
        if same("rules") && same("aggregationRule") {
            return Ok(());
        }
        if self.may(write, "escalate", write.resource, write.name) {
            return Ok(());
        }
        let role = Role::deserialize(write.new).map_err(|error| Status::bad_request(error.to_string()))?;
        if role.aggregation_rule.is_some() {
            // What it will aggregate is not known yet, so only who holds everything may write it.
            return self.check_held(write, &Rule::everything());
        }
        self.check_held(write, &role.rules.unwrap_or_default())
    }

    fn check_binding(&self, write: &RoleWrite<'_>) -> Result<(), Status> {
        let reference = write.new.get("roleRef");
        if let Some(old) = write.old {
            if old.get("roleRef") != reference {
                return Err(moved(write, reference));
            }
            if old.get("subjects") == write.new.get("subjects") {
                return Ok(());
            }
        }
        let reference = reference.and_then(|reference| RoleRef::deserialize(reference).ok()).unwrap_or_default();
        let resource = if reference.kind == "Role" { "roles" } else { "clusterroles" };
        if self.may(write, "bind", resource, &reference.name) {
            return Ok(());
        }
        let policy = self.policy();
        let rules = policy
            .role(write.namespace, &reference)
            .ok_or_else(|| Status::not_found(GROUP, resource, &reference.name))?;
        self.check_held(write, rules)
    }

    fn may(&self, write: &RoleWrite<'_>, verb: &str, resource: &str, name: &str) -> bool {
        let question = Attributes {
            user: write.user,
            verb,
            group: GROUP,
            resource,
            subresource: "",
            namespace: write.namespace,
            name,
            path: "",
        };
        self.decide(&question).is_allowed()
    }

    fn check_held(&self, write: &RoleWrite<'_>, wanted: &[Rule]) -> Result<(), Status> {
        let policy = self.policy();
        let held = policy.rules_for(write.user, write.namespace);
        let missing: Vec<String> = wanted.iter().filter(|rule| !Rule::all_covered(&held, rule)).map(describe).collect();
        if missing.is_empty() {
            return Ok(());
        }
        tracing::info!(
            target: "audit", user = %write.user.name, resource = write.resource, namespace = write.namespace,
            name = write.name, "denied: escalation"
        );
        let User { name, groups, .. } = write.user;
        let why = format!(
            "user \"{name}\" (groups={groups:?}) is attempting to grant RBAC permissions not currently held:\n{}",
            missing.join("\n")
        );
        Err(Status::forbidden(GROUP, write.resource, write.name, why))
    }
}

fn moved(write: &RoleWrite<'_>, reference: Option<&Value>) -> Status {
    let kind = if write.resource == "rolebindings" { "RoleBinding" } else { "ClusterRoleBinding" };
    let shown = reference.map(Value::to_string).unwrap_or_default();
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {shown}: cannot change roleRef"),
        field: "roleRef".into(),
    };
    Status::invalid(GROUP, kind, write.name, vec![cause])
}

/// `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`
fn describe(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("ResourceNames", &rule.resource_names),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(_, words)| !words.is_empty()).map(|(name, words)| format!("{name}:{words:?}")).collect();
    format!("{{{}}}", parts.join(", "))
}
