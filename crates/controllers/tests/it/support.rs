//! Reading manifests, and what a decision consists of.

use engine::{Decision, Step};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A manifest as kubectl reads it: `0400` is octal.
pub fn yaml<T: DeserializeOwned>(text: &str) -> T {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).unwrap()
}

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// What a decision writes, as short lines.
pub fn steps(decision: &Decision) -> Vec<String> {
    decision.steps.iter().map(line).collect()
}

fn line(step: &Step) -> String {
    match step {
        Step::Apply(object) => format!("apply {} {}", object.resource.kind, object.key().name),
        Step::Create(object) => format!("create {} {}", object.resource.kind, object.key().name),
        Step::Delete(deletion) => format!("delete {} {}", deletion.target.resource.kind, deletion.target.key.name),
        Step::Patch(patch) => {
            let what = patch.subresource.unwrap_or("object");
            format!("patch {what} {} {}", patch.target.resource.kind, patch.target.key.name)
        }
        Step::Call(call) => format!("call {call:?}"),
    }
}

/// The object of this kind that a decision creates or applies.
pub fn object(decision: &Decision, kind: &str) -> Value {
    let made = decision.steps.iter().find_map(|step| match step {
        Step::Apply(object) | Step::Create(object) if object.resource.kind == kind => Some(object.value.clone()),
        _ => None,
    });
    made.unwrap_or_else(|| panic!("no {kind} in {:?}", steps(decision)))
}

/// What a decision changes in the status.
pub fn status(decision: &Decision) -> Value {
    let patch = decision.steps.iter().find_map(|step| match step {
        Step::Patch(patch) if patch.subresource == Some("status") => Some(patch.body["status"].clone()),
        _ => None,
    });
    patch.unwrap_or_default()
}

/// The condition of this type in a status.
pub fn condition(status: &Value, type_: &str) -> (String, String) {
    let list = status["conditions"].as_array().unwrap();
    let found =
        list.iter().find(|condition| condition["type"] == type_).unwrap_or_else(|| panic!("{type_} in {list:?}"));
    (found["status"].as_str().unwrap().into(), found["reason"].as_str().unwrap().into())
}

/// The variables of a container, by name; those from elsewhere as `<from>`.
pub fn env(container: &Value) -> Vec<(String, String)> {
    let list = container["env"].as_array().unwrap().iter();
    list.map(|v| (v["name"].as_str().unwrap().into(), v["value"].as_str().unwrap_or("<from>").into())).collect()
}

/// The container of this name, among all of a Pod's.
pub fn container(pod_spec: &Value, name: &str) -> Value {
    let all = ["initContainers", "containers"].into_iter().flat_map(|list| pod_spec[list].as_array().unwrap());
    all.into_iter().find(|container| container["name"] == name).unwrap_or_else(|| panic!("no container {name}")).clone()
}
