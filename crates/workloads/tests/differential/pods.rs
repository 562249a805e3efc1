//! A stand-in for scheduler and node, the same on both sides.

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

/// Binds Pods that nobody binds, reports them running (ready unless their image is `broken`), and ends them.
pub async fn run(client: Client) {
    let all = Api::<Pod>::all(client.clone());
    let mut pods = watcher(all, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let mut address = 0;
    while let Some(pod) = pods.next().await {
        let Ok(pod) = pod else { continue };
        let spec = pod.spec.clone().unwrap_or_default();
        let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap());
        let name = pod.name_any();
        // Each request may meet a Pod that has changed since; the next event tells.
        if pod.metadata.deletion_timestamp.is_some() {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            let _ = api.delete(&name, &now).await;
        } else if spec.node_name.is_none() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": "here"});
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
            let _ = api.create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding).await;
        } else if pod.status.as_ref().is_none_or(|status| status.pod_ip.is_none()) {
            address += 1;
            let ready = if spec.containers[0].image.as_deref() == Some("broken") { "False" } else { "True" };
            let since = jiff::Timestamp::now().to_string();
            let status = json!({"status": {
                "phase": "Running", "podIP": format!("10.1.0.{address}"), "podIPs": [{"ip": format!("10.1.0.{address}")}],
                "conditions": [
                    {"type": "Ready", "status": ready, "lastTransitionTime": since},
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
                ],
            }});
            let _ = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        }
    }
}
