//! What happened to an object, and to the Pod that does its work, as the Kubernetes API recorded it.

use axum::Json;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::error::Result;
use crate::kinds::Kind;

/// `GET …/{name}/events`, newest first.
pub async fn list(kind: &'static Kind, caller: &Caller, namespace: &str, name: &str) -> Result<Json<Value>> {
    let object = kind.api(&caller.client, Some(namespace)).get(name).await?;
    let mut events = about(caller, namespace, kind.name, name).await?;
    if let Some(pod) = object.data["status"]["podName"].as_str() {
        events.extend(about(caller, namespace, "Pod", pod).await?);
    }
    if let Some(deployment) = object.data["status"]["deploymentName"].as_str() {
        events.extend(about(caller, namespace, "Deployment", deployment).await?);
    }
    let mut shown: Vec<Value> = events.iter().map(view).collect();
    shown.sort_by_key(|event| std::cmp::Reverse(event["at"].as_str().unwrap_or_default().to_owned()));
    Ok(Json(json!({"events": shown})))
}

async fn about(caller: &Caller, namespace: &str, kind: &str, name: &str) -> Result<Vec<Event>> {
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let events: Api<Event> = Api::namespaced(caller.client.clone(), namespace);
    Ok(events.list(&ListParams::default().fields(&selector)).await?.items)
}

/// Old and new events keep their time and count in different places.
fn view(event: &Event) -> Value {
    let series = event.series.as_ref();
    let at = series
        .and_then(|series| series.last_observed_time.as_ref())
        .or(event.event_time.as_ref())
        .map(|time| json!(time))
        .or_else(|| event.last_timestamp.as_ref().map(|time| json!(time)))
        .unwrap_or_else(|| json!(event.metadata.creation_timestamp));
    let count = series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    let object = &event.involved_object;
    json!({
        "type": event.type_,
        "reason": event.reason,
        "message": event.message,
        "count": count,
        "at": at,
        "object": format!("{}/{}", object.kind.as_deref().unwrap_or_default().to_lowercase(), object.name.as_deref().unwrap_or_default()),
    })
}
