//! Roles and their bindings.

use serde_json::Value;

use super::{list, text};
use crate::field::{self, Path};
use crate::meta::names;
use crate::selector;
use crate::status::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

pub fn role(object: &Value, namespaced: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let rules = Path::new("rules");
    for (index, rule) in list(&object["rules"]).iter().enumerate() {
        check_rule(rule, namespaced, &rules.index(index), &mut causes);
    }
    if let Some(aggregation) = object.get("aggregationRule").filter(|rule| rule.is_object()) {
        let path = Path::new("aggregationRule.clusterRoleSelectors");
        let selectors = list(&aggregation["clusterRoleSelectors"]);
        if selectors.is_empty() {
            causes.push(field::required(
                &path,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ));
        }
        for (index, one) in selectors.iter().enumerate() {
            causes.extend(selector::validate_object(one, &path.index(index)));
        }
    }
    causes
}

fn check_rule(rule: &Value, namespaced: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let empty = |key: &str| list(&rule[key]).is_empty();
    if empty("verbs") {
        causes.push(field::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !empty("nonResourceURLs") {
        let path = path.child("nonResourceURLs");
        let urls = &rule["nonResourceURLs"];
        if namespaced {
            causes.push(field::invalid(&path, urls, "namespaced rules cannot apply to non-resource URLs"));
        }
        if !(empty("apiGroups") && empty("resources") && empty("resourceNames")) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(field::invalid(&path, urls, detail));
        }
        return;
    }
    if empty("apiGroups") {
        causes.push(field::required(&path.child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if empty("resources") {
        causes.push(field::required(&path.child("resources"), "resource rules must supply at least one resource"));
    }
}

pub fn binding(object: &Value, old: Option<&Value>, namespaced: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let role = &object["roleRef"];
    let path = Path::new("roleRef");
    let given = |key: &str| Value::from(text(&role[key]));
    if text(&role["apiGroup"]) != GROUP {
        causes.push(field::not_supported(&path.child("apiGroup"), &given("apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(&role["kind"])) {
        causes.push(field::not_supported(&path.child("kind"), &given("kind"), kinds));
    }
    let name = text(&role["name"]);
    let name_path = path.child("name");
    if name.is_empty() && role.get("name").is_some() {
        causes.push(field::required(&name_path, ""));
    }
    causes.extend(super::named(&name_path, name, names::path_segment(name, false)));
    let subjects = Path::new("subjects");
    for (index, subject) in list(&object["subjects"]).iter().enumerate() {
        check_subject(subject, namespaced, &subjects.index(index), &mut causes);
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        let part = |key: &str| field::quote(text(&role[key]));
        let printed =
            format!("{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}", part("apiGroup"), part("kind"), part("name"));
        causes.push(field::invalid_printed(&path, &printed, "cannot change roleRef"));
    }
    causes
}

fn check_subject(subject: &Value, namespaced: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let name = text(&subject["name"]);
    let name_path = path.child("name");
    if name.is_empty() && subject.get("name").is_some() {
        causes.push(field::required(&name_path, ""));
    }
    let group = Value::from(text(&subject["apiGroup"]));
    let group_path = path.child("apiGroup");
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                causes.extend(super::named(&name_path, name, names::dns1123_subdomain(name)));
            }
            if group != "" {
                causes.push(field::not_supported(&group_path, &group, &[""]));
            }
            if !namespaced && text(&subject["namespace"]).is_empty() {
                causes.push(field::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                causes.push(field::not_supported(&group_path, &group, &[GROUP]));
            }
        }
        kind => {
            causes.push(field::not_supported(&path.child("kind"), &kind.into(), &["ServiceAccount", "User", "Group"]));
        }
    }
}
