//! Deployments and ReplicaSets: a template of Pods and the labels that find them.

use machinery::field::{self, Path};
use machinery::status::Cause;
use serde_json::Value;

use super::Hooks;
use super::pod::template;

/// Hooks of Deployments and ReplicaSets.
pub struct Workload;

impl Hooks for Workload {
    fn validate(&self, object: &Value, old: Option<&Value>, subresource: &str) -> Vec<Cause> {
        if !subresource.is_empty() {
            return Vec::new();
        }
        let spec = Path::new("spec");
        let template_path = spec.child("template");
        let mut causes = template(&object["spec"]["template"]["spec"], &template_path.child("spec"));
        let selector = &object["spec"]["selector"];
        let labels = &object["spec"]["template"]["metadata"]["labels"];
        if selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
            && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
        {
            causes.push(field::invalid(&spec.child("selector"), selector, "empty selector is invalid for deployment"));
        } else if !selects(selector, labels) {
            let metadata = template_path.child("metadata");
            causes.push(field::invalid(
                &metadata.child("labels"),
                labels,
                "`selector` does not match template `labels`",
            ));
        }
        if let Some(old) = old {
            causes.extend(field::immutable(&spec.child("selector"), selector, &old["spec"]["selector"]));
        }
        let restart = &object["spec"]["template"]["spec"]["restartPolicy"];
        if !matches!(restart.as_str(), None | Some("Always")) {
            let template_spec = template_path.child("spec");
            causes.push(field::not_supported(&template_spec.child("restartPolicy"), restart, &["Always"]));
        }
        causes
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    machinery::selector::LabelSelector::from_object(Some(selector))
        .is_ok_and(|selector| selector.matches(labels.as_object().unwrap_or(&serde_json::Map::new())))
}
