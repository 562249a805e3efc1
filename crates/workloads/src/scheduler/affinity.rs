//! Node selectors and required node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// Whether a Pod may run on a node by what it says about nodes. Preferences do not matter: they rule nothing out.
pub fn matches(spec: &PodSpec, node: &Node) -> bool {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let wanted = spec.node_selector.iter().flatten();
    let selected = wanted.into_iter().all(|(name, value)| labels.get(name) == Some(value));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected
        && required.is_none_or(|selector| {
            selector.node_selector_terms.iter().any(|term| term_matches(term, labels, node.metadata.name.as_deref()))
        })
}

fn term_matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: Option<&str>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // A term that asks for nothing matches nothing.
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let field = |key: &str| if key == "metadata.name" { name } else { None };
    expressions.iter().all(|expression| holds(expression, labels.get(&expression.key).map(String::as_str)))
        && fields.iter().all(|expression| holds(expression, field(&expression.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|wanted| wanted == value));
    let compared = |holds: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|bound| bound.parse().ok());
        let value = value.and_then(|value| value.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}
