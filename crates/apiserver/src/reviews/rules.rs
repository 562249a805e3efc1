//! `SelfSubjectRulesReview`: everything one may do in a namespace (`kubectl auth can-i --list`).

use machinery::status::Status;
use serde_json::{Value, json};

use crate::access::Access;
use crate::authz::Rule;
use crate::user::{MASTERS, User};

impl Access {
    pub(super) fn review_rules(&self, user: &User, review: &Value) -> Result<Value, Status> {
        let namespace = review.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let policy = self.authorizer.policy();
        let everything = Rule::everything();
        let mut rules = policy.rules_for(user, namespace);
        if user.is_in(MASTERS) {
            rules.splice(0..0, &everything);
        }
        let mut resources = Vec::new();
        let mut paths = Vec::new();
        for rule in rules {
            if !rule.resources.is_empty() {
                resources.push(json!({
                    "verbs": rule.verbs,
                    "apiGroups": rule.api_groups,
                    "resources": rule.resources,
                    "resourceNames": rule.resource_names,
                }));
            }
            if !rule.non_resource_urls.is_empty() {
                paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls }));
            }
        }
        resources.dedup();
        paths.dedup();
        Ok(json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false }))
    }
}
