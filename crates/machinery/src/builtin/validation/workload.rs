//! Deployments and `ReplicaSets`.

use serde_json::{Map, Value, json};

use super::{not_negative, text};
use crate::field::{self, Path};
use crate::meta::{self, names};
use crate::selector::{self, LabelSelector};
use crate::status::Cause;

pub fn deployment(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &object["spec"];
    let path = Path::new("spec");
    let mut causes = replicated(spec, &path);
    strategy(&spec["strategy"], &path.child("strategy"), &mut causes);
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        causes.extend(not_negative(&spec[key], &path.child(key)));
    }
    let seconds = |key: &str| spec[key].as_i64();
    if seconds("progressDeadlineSeconds").is_some_and(|deadline| deadline <= seconds("minReadySeconds").unwrap_or(0)) {
        let detail = "must be greater than minReadySeconds";
        causes.push(field::invalid(&path.child("progressDeadlineSeconds"), &spec["progressDeadlineSeconds"], detail));
    }
    causes.extend(unchanged_selector(spec, old));
    causes
}

pub fn replica_set(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &object["spec"];
    let path = Path::new("spec");
    let mut causes = replicated(spec, &path);
    causes.extend(not_negative(&spec["minReadySeconds"], &path.child("minReadySeconds")));
    causes.extend(unchanged_selector(spec, old));
    causes
}

fn unchanged_selector(spec: &Value, old: Option<&Value>) -> Option<Cause> {
    field::immutable(&Path::new("spec.selector"), &spec["selector"], &old?["spec"]["selector"])
}

/// A number of Pods from a template, found by a selector.
fn replicated(spec: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes: Vec<Cause> = not_negative(&spec["replicas"], &path.child("replicas")).into_iter().collect();
    let selector_path = path.child("selector");
    let selector = &spec["selector"];
    if selector.is_object() {
        causes.extend(selector::validate_object(selector, &selector_path));
        if selector.as_object().is_none_or(Map::is_empty) {
            causes.push(field::invalid(&selector_path, selector, "empty selector is invalid for deployment"));
        }
    }
    let template_path = path.child("template");
    let template = &spec["template"];
    match LabelSelector::from_object(Some(selector).filter(|selector| selector.is_object())) {
        Err(_) => causes.push(field::invalid(&selector_path, selector, "invalid label selector")),
        Ok(selector) => {
            let none = Map::new();
            let labels = template["metadata"]["labels"].as_object().unwrap_or(&none);
            if !selector.is_empty() && !selector.matches(labels) {
                let metadata = template_path.child("metadata");
                let printed = if labels.is_empty() { Value::Null } else { json!(labels) };
                let detail = "`selector` does not match template `labels`";
                causes.push(field::invalid(&metadata.child("labels"), &printed, detail));
            }
            causes.extend(check_template(template, &template_path));
        }
    }
    causes
}

fn check_template(template: &Value, path: &Path<'_>) -> Vec<Cause> {
    // The API server leaves `metadata` out of these two paths.
    let mut causes = meta::validate_labels(template["metadata"].get("labels"), &path.child("labels"));
    causes.extend(meta::validate_annotations(template["metadata"].get("annotations"), &path.child("annotations")));
    let spec_path = path.child("spec");
    causes.extend(super::pod::spec(&template["spec"], &spec_path));
    let restart = &template["spec"]["restartPolicy"];
    if text(restart) != "Always" {
        causes.push(field::not_supported(&spec_path.child("restartPolicy"), restart, &["Always"]));
    }
    if template["spec"].get("activeDeadlineSeconds").is_some_and(|seconds| !seconds.is_null()) {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        causes.push(field::forbidden(&spec_path.child("activeDeadlineSeconds"), detail));
    }
    causes
}

fn strategy(strategy: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let rolling = &strategy["rollingUpdate"];
    let strategy_path = path;
    let path = path.child("rollingUpdate");
    match text(&strategy["type"]) {
        "Recreate" if rolling.is_object() => {
            causes.push(field::forbidden(&path, "may not be specified when strategy `type` is 'Recreate'"));
        }
        "RollingUpdate" => {
            for key in ["maxUnavailable", "maxSurge"] {
                causes.extend(share(&rolling[key], &path.child(key)));
            }
            let unavailable = &rolling["maxUnavailable"];
            let unavailable_path = path.child("maxUnavailable");
            if amount(unavailable) == Some(0) && amount(&rolling["maxSurge"]) == Some(0) {
                causes.push(field::invalid(&unavailable_path, unavailable, "may not be 0 when `maxSurge` is 0"));
            }
            if unavailable.is_string() && amount(unavailable).is_some_and(|percent| percent > 100) {
                causes.push(field::invalid(&unavailable_path, unavailable, "must not be greater than 100%"));
            }
        }
        "Recreate" => {}
        other => {
            let printed = format!("{{\"Type\":{},\"RollingUpdate\":null}}", field::quote(other));
            causes.push(field::not_supported_printed(strategy_path, &printed, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// A count or a percentage.
fn share(value: &Value, path: &Path<'_>) -> Vec<Cause> {
    match value {
        Value::String(percent) => {
            names::percentage(percent).iter().map(|problem| field::invalid_text(path, percent, problem)).collect()
        }
        other => not_negative(other, path).into_iter().collect(),
    }
}

fn amount(value: &Value) -> Option<i64> {
    match value {
        Value::String(percent) => percent.strip_suffix('%')?.parse().ok(),
        other => other.as_i64(),
    }
}
