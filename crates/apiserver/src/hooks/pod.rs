//! Pods: a lifecycle shared with the node that runs them.

mod account;

use machinery::status::Status;
use serde_json::{Value, json};

use super::{Change, Hooks};

/// Hooks of Pods.
pub struct Pod;

/// Grace when nobody says: as Kubernetes.
const GRACE_SECONDS: u64 = 30;

impl Hooks for Pod {
    fn prepare(&self, change: &mut Change<'_>) -> Result<(), Status> {
        if change.old.is_none() {
            let spec = &mut change.object["spec"];
            // Two names for one field, as Kubernetes keeps them.
            let named = ["serviceAccountName", "serviceAccount"].iter().find_map(|field| spec[*field].as_str());
            let account = named.filter(|name| !name.is_empty()).unwrap_or(account::DEFAULT).to_owned();
            if spec.is_object() {
                spec["serviceAccountName"] = json!(account);
                spec["serviceAccount"] = json!(account);
            }
            let class = quality(spec);
            change.object["status"] = json!({ "phase": "Pending", "qosClass": class });
            if change.server.mounts_tokens() {
                account::admit(change.server, change.object)?;
            }
        }
        Ok(())
    }

    fn is_graceful(&self) -> bool {
        true
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
