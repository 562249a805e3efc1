//! Aggregated `ClusterRoles`: their rules are those of all roles whose labels they select.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::policy::Role;
use super::rule::Rule;

/// Which roles to aggregate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Aggregation {
    cluster_role_selectors: Option<Vec<Selector>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    match_labels: HashMap<String, String>,
    match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    fn matches(&self, labels: &HashMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &HashMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

/// The rules of every `ClusterRole`, aggregation resolved (also through roles that are aggregated themselves).
pub(super) fn resolve(roles: &[Role]) -> HashMap<String, Vec<Rule>> {
    roles
        .iter()
        .map(|role| {
            let mut collected = Vec::new();
            collect(role, roles, &mut HashSet::new(), &mut collected);
            (role.metadata.name.clone(), collected)
        })
        .collect()
}

fn collect<'a>(role: &'a Role, all: &'a [Role], seen: &mut HashSet<&'a str>, rules: &mut Vec<Rule>) {
    if !seen.insert(&role.metadata.name) {
        return;
    }
    let Some(aggregation) = &role.aggregation_rule else {
        rules.extend(role.rules.iter().flatten().cloned());
        return;
    };
    for selected in all {
        let selectors = aggregation.cluster_role_selectors.iter().flatten();
        if selectors.clone().any(|selector| selector.matches(&selected.metadata.labels)) {
            collect(selected, all, seen, rules);
        }
    }
}
