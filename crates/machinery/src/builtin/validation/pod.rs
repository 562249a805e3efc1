//! Pods and templates of Pods.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::container::{self, Kind};
use super::{list, named, text};
use crate::field::{self, Path};
use crate::meta::{self, names};
use crate::status::Cause;

/// What may change in a Pod that exists.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub fn pod(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = spec(&object["spec"], &Path::new("spec"));
    if let Some(old) = old {
        changed(&object["spec"], &old["spec"], &mut causes);
    }
    causes
}

/// The parts that Pods and templates share.
pub fn spec(spec: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let volumes = check_volumes(spec, &path.child("volumes"), &mut causes);
    check_containers(spec, &volumes, path, &mut causes);
    if spec["nodeSelector"].is_object() {
        causes.extend(meta::validate_labels(spec.get("nodeSelector"), &path.child("nodeSelector")));
    }
    for (key, problems) in [
        ("serviceAccountName", names::dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns1123_subdomain),
        ("hostname", names::dns1123_label),
        ("subdomain", names::dns1123_label),
        ("priorityClassName", names::dns1123_subdomain),
        ("runtimeClassName", names::dns1123_subdomain),
    ] {
        let name = text(&spec[key]);
        if !name.is_empty() {
            causes.extend(named(&path.child(key), name, problems(name)));
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.push(field::invalid(&path.child("activeDeadlineSeconds"), &seconds.into(), detail));
    }
    check_tolerations(spec, &path.child("tolerations"), &mut causes);
    causes
}

/// Checks the volumes and returns the names of the good ones.
fn check_volumes<'a>(spec: &'a Value, path: &Path<'_>, causes: &mut Vec<Cause>) -> HashSet<&'a str> {
    let mut good = HashSet::new();
    for (index, volume) in list(&spec["volumes"]).iter().enumerate() {
        let path = path.index(index);
        let before = causes.len();
        let name = text(&volume["name"]);
        check_source(volume, &path, causes);
        let name_path = path.child("name");
        if !name.is_empty() {
            causes.extend(named(&name_path, name, names::dns1123_label(name)));
        } else if volume.get("name").is_some() {
            causes.push(field::required(&name_path, ""));
        }
        if good.contains(name) {
            causes.push(field::duplicate(&name_path, &volume["name"]));
        }
        if causes.len() == before {
            good.insert(name);
        }
    }
    good
}

fn check_source(volume: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let sources: Vec<&String> = volume
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| *key != "name" && !value.is_null())
        .map(|(key, _)| key)
        .collect();
    match sources.as_slice() {
        [] => causes.push(field::required(path, "must specify a volume type")),
        [_] => {}
        [_, others @ ..] => {
            causes.extend(
                others.iter().map(|key| field::forbidden(&path.child(key), "may not specify more than 1 volume type")),
            );
        }
    }
    let need = |source: &str, key: &str| {
        let path = path.child(source);
        (volume[source].is_object() && text(&volume[source][key]).is_empty())
            .then(|| field::required(&path.child(key), ""))
    };
    causes.extend(need("secret", "secretName"));
    causes.extend(need("configMap", "name"));
    causes.extend(need("hostPath", "path"));
    causes.extend(need("persistentVolumeClaim", "claimName"));
    causes.extend(need("nfs", "server"));
    causes.extend(need("image", "reference"));
    for source in ["secret", "configMap"] {
        let source_path = path.child(source);
        let items_path = source_path.child("items");
        for (index, item) in list(&volume[source]["items"]).iter().enumerate() {
            check_item(item, &items_path.index(index), causes);
        }
        causes.extend(mode(&volume[source]["defaultMode"], &source_path.child("defaultMode")));
    }
    if volume["ephemeral"].is_object() {
        let ephemeral = path.child("ephemeral");
        let template = ephemeral.child("volumeClaimTemplate");
        causes.extend(super::claim::spec(&volume["ephemeral"]["volumeClaimTemplate"]["spec"], &template.child("spec")));
    }
}

fn check_item(item: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    for key in ["key", "path"] {
        if item.get(key).is_some() && text(&item[key]).is_empty() {
            causes.push(field::required(&path.child(key), ""));
        }
    }
    causes.extend(container::relative_path(text(&item["path"]), &path.child("path")));
    causes.extend(mode(&item["mode"], &path.child("mode")));
}

fn mode(value: &Value, path: &Path<'_>) -> Option<Cause> {
    let mode = value.as_i64()?;
    let detail = "must be a number between 0 and 0777 (octal), both inclusive";
    (!(0..=0o777).contains(&mode)).then(|| field::invalid(path, value, detail))
}

fn check_containers<'a>(spec: &'a Value, volumes: &HashSet<&str>, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let containers = list(&spec["containers"]);
    let containers_path = path.child("containers");
    if containers.is_empty() && spec.get("containers").is_some() {
        causes.push(field::required(&containers_path, ""));
    }
    let mut seen: HashSet<&'a str> = HashSet::new();
    let lists =
        [("containers", Kind::Regular), ("initContainers", Kind::Init), ("ephemeralContainers", Kind::Ephemeral)];
    for (key, kind) in lists {
        let path = path.child(key);
        for (index, container) in list(&spec[key]).iter().enumerate() {
            let path = path.index(index);
            container::container(container, kind, volumes, &path, causes);
            let name = text(&container["name"]);
            if !name.is_empty() && !seen.insert(name) {
                causes.push(field::duplicate(&path.child("name"), &container["name"]));
            }
        }
    }
}

fn check_tolerations(spec: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    for (index, toleration) in list(&spec["tolerations"]).iter().enumerate() {
        let path = path.index(index);
        let key = text(&toleration["key"]);
        let operator = text(&toleration["operator"]);
        let operator_path = path.child("operator");
        if !key.is_empty() {
            causes.extend(named(&path.child("key"), key, names::label_key(key)));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(field::invalid_text(&operator_path, operator, detail));
        }
        if toleration["tolerationSeconds"].is_i64() && toleration["effect"] != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(field::invalid_text(&path.child("effect"), text(&toleration["effect"]), detail));
        }
        let value = text(&toleration["value"]);
        match operator {
            "" | "Equal" => {
                let problems = names::label_value(value);
                if !problems.is_empty() {
                    causes.push(field::invalid_text(&operator_path, value, &problems.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.push(field::invalid_text(&operator_path, value, detail));
            }
            "Exists" => {}
            _ => causes.push(field::not_supported(&operator_path, &toleration["operator"], &["Equal", "Exists"])),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let effect = text(&toleration["effect"]);
        if !effect.is_empty() && !effects.contains(&effect) {
            causes.push(field::not_supported(&path.child("effect"), &toleration["effect"], &effects));
        }
    }
}

/// A Pod that exists may change its images, its deadline, its tolerations and its gates, no more.
fn changed(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let path = Path::new("spec");
    for key in ["containers", "initContainers"] {
        if list(&new[key]).len() != list(&old[key]).len() {
            let detail = "pod updates may not add or remove containers";
            causes.push(field::forbidden(&path.child(key), detail));
            return;
        }
    }
    let deadline_path = path.child("activeDeadlineSeconds");
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(new), Some(old)) if new > old => {
            causes.push(field::invalid(&deadline_path, &new.into(), "must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            causes.push(field::invalid(&deadline_path, &Value::Null, detail));
        }
        _ => {}
    }
    let missing = list(&old["tolerations"])
        .iter()
        .any(|toleration| !list(&new["tolerations"]).iter().any(|other| same_toleration(other, toleration)));
    if missing {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(field::forbidden(&path.child("tolerations"), detail));
    }
    let gates = path.child("schedulingGates");
    for gate in list(&new["schedulingGates"]).iter().filter(|gate| !list(&old["schedulingGates"]).contains(gate)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", text(&gate["name"]));
        causes.push(field::forbidden(&gates, &detail));
    }
    let (mut after, mut before) = (new.clone(), old.clone());
    for spec in [&mut after, &mut before] {
        forget_changeable(spec);
    }
    if after != before {
        let detail =
            format!("pod updates may not change fields other than {CHANGEABLE}\n{}", difference(&before, &after));
        causes.push(field::forbidden(&path, &detail));
    }
}

fn same_toleration(left: &Value, right: &Value) -> bool {
    ["key", "operator", "value", "effect"].iter().all(|key| left[*key] == right[*key])
}

fn forget_changeable(spec: &mut Value) {
    for key in ["containers", "initContainers"] {
        for container in spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            container.as_object_mut().map(|fields| fields.remove("image"));
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"] {
            fields.remove(key);
        }
    }
}

/// The fields that differ, for the reader.
fn difference(before: &Value, after: &Value) -> String {
    let empty = serde_json::Map::new();
    let (before, after) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let lines: Vec<String> = keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| {
            format!(
                "- {key}: {}\n+ {key}: {}",
                before.get(key).unwrap_or(&json!(null)),
                after.get(key).unwrap_or(&json!(null))
            )
        })
        .collect();
    lines.join("\n")
}
