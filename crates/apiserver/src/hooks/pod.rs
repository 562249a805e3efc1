//! Pods: a lifecycle shared with the node that runs them.

use machinery::field::{self, Path};
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use super::{Change, Hooks};
use crate::object;

/// Hooks of Pods.
pub struct Pod;

/// Grace when nobody says: as Kubernetes.
const GRACE_SECONDS: u64 = 30;

impl Hooks for Pod {
    fn convert(&self, change: &mut Change<'_>) {
        let spec = &mut change.object["spec"];
        let named = ["serviceAccountName", "serviceAccount"].iter().any(|field| spec[*field].is_string());
        if spec.is_object() && !named {
            spec["serviceAccountName"] = json!("default");
        }
    }

    fn prepare(&self, change: &mut Change<'_>) -> Result<(), Status> {
        if change.old.is_none() {
            let class = quality(&change.object["spec"]);
            change.object["status"] = json!({ "phase": "Pending", "qosClass": class });
        }
        Ok(())
    }

    fn validate(&self, pod: &Value, old: Option<&Value>, subresource: &str) -> Vec<Cause> {
        let mut causes = template(&pod["spec"], &Path::new("spec"));
        if let Some(old) = old.filter(|_| subresource.is_empty())
            && changeless(pod, old) != old["spec"]
        {
            let detail = "pod updates may not change fields other than `spec.containers[*].image`, \
                          `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions \
                          to existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                          previously negative)";
            causes.push(field::forbidden(&Path::new("spec"), detail));
        }
        causes
    }

    fn grace(&self, pod: &Value, asked: Option<u64>) -> u64 {
        let wanted =
            asked.unwrap_or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(GRACE_SECONDS));
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        // A Pod that no node has, or that has ended, needs nobody's consent.
        let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
        if unscheduled || matches!(phase, "Succeeded" | "Failed") { 0 } else { wanted }
    }
}

/// The new Pod with what may change set back: equal to the old one if nothing else did.
fn changeless(pod: &Value, old: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"] {
        object::put(&mut spec, field, old["spec"].get(field).cloned());
    }
    for list in ["containers", "initContainers"] {
        let before = old["spec"][list].as_array().cloned().unwrap_or_default();
        for (container, old) in spec[list].as_array_mut().into_iter().flatten().zip(before) {
            object::put(container, "image", old.get("image").cloned());
        }
        if spec[list].is_null() {
            object::put(&mut spec, list, None);
        }
    }
    // A node takes a Pod through `binding` or by writing its name once.
    if old["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        object::put(&mut spec, "nodeName", old["spec"].get("nodeName").cloned());
    }
    spec
}

/// Rules of a Pod's specification, wherever it is embedded.
pub fn template(spec: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(field::required(&path.child("containers"), ""));
    }
    let mut names = Vec::new();
    let volumes: Vec<&str> = list(&spec["volumes"]).filter_map(|volume| volume["name"].as_str()).collect();
    for kind in ["initContainers", "containers"] {
        let base = path.child(kind);
        for (index, container) in list(&spec[kind]).enumerate() {
            let here = base.index(index);
            let name = container["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                causes.push(field::required(&here.child("name"), ""));
            } else if names.contains(&name) {
                causes.push(field::duplicate(&here.child("name"), &container["name"]));
            }
            names.push(name);
            if container["image"].as_str().unwrap_or_default().is_empty() {
                causes.push(field::required(&here.child("image"), ""));
            }
            let mounts = here.child("volumeMounts");
            for (index, mount) in list(&container["volumeMounts"]).enumerate() {
                let here = mounts.index(index);
                if !volumes.contains(&mount["name"].as_str().unwrap_or_default()) {
                    causes.push(field::not_found(&here.child("name"), &mount["name"]));
                }
            }
        }
    }
    causes
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The quality of service class, from requests and limits.
fn quality(spec: &Value) -> &'static str {
    let containers = || list(&spec["containers"]).chain(list(&spec["initContainers"]));
    let amount = |one: &Value, which: &str, name: &str| one["resources"][which].get(name).cloned();
    let names = ["cpu", "memory"];
    let nothing = containers()
        .all(|one| names.iter().all(|name| amount(one, "requests", name).or(amount(one, "limits", name)).is_none()));
    if nothing {
        return "BestEffort";
    }
    let guaranteed = containers().all(|one| {
        names.iter().all(|name| {
            let limit = amount(one, "limits", name);
            limit.is_some() && amount(one, "requests", name).is_none_or(|request| Some(request) == limit)
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}
