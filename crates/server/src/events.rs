//! What happened, as the Kubernetes API recorded it: to an object and the Pod that does its work, or anywhere.

use axum::Json;
use axum::extract::{Extension, State};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Resource;
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::kinds::Kind;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;
const EVENTS: Resource<'static> = Resource { group: "", plural: "events", subresource: "" };

/// Which events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Wanted {
    /// `Normal` or `Warning`.
    r#type: Option<String>,
    /// Kind of the object they are about.
    kind: Option<String>,
    /// How many, 100 unless told, 1000 at most.
    limit: Option<usize>,
}

/// `GET …/{name}/events`, newest first.
pub async fn of(kind: &'static Kind, caller: &Caller, namespace: &str, name: &str) -> Result<Json<Value>> {
    let object = kind.api(&caller.client, Some(namespace)).get(name).await?;
    let mut events = about(caller, namespace, kind.name, name).await?;
    if let Some(pod) = object.data["status"]["podName"].as_str() {
        events.extend(about(caller, namespace, "Pod", pod).await?);
    }
    if let Some(deployment) = object.data["status"]["deploymentName"].as_str() {
        events.extend(about(caller, namespace, "Deployment", deployment).await?);
    }
    Ok(Json(json!({"events": newest_first(&events)})))
}

/// `GET /api/v1/events`: in every namespace the caller can see.
pub async fn everywhere(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    let all = Api::<Event>::all(caller.client.clone()).list(&ListParams::default()).await.map_err(Error::from);
    let events = match all {
        Ok(list) => list.items,
        Err(error) if error.is_forbidden() => {
            let mut events = Vec::new();
            for namespace in caller.namespaces(&app, EVENTS).await? {
                events.extend(within(&caller, &namespace).await?);
            }
            events
        }
        Err(error) => return Err(error),
    };
    Ok(page(&events, &wanted))
}

/// `GET /api/v1/namespaces/{namespace}/events`.
pub async fn in_namespace(
    Extension(caller): Extension<Caller>,
    Path(namespace): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    Ok(page(&within(&caller, &namespace).await?, &wanted))
}

fn page(events: &[Event], wanted: &Wanted) -> Json<Value> {
    let is = |value: Option<&str>, wanted: Option<&String>| wanted.is_none_or(|wanted| value == Some(wanted.as_str()));
    let matching: Vec<Event> = events
        .iter()
        .filter(|event| is(event.type_.as_deref(), wanted.r#type.as_ref()))
        .filter(|event| is(event.involved_object.kind.as_deref(), wanted.kind.as_ref()))
        .cloned()
        .collect();
    let total = matching.len();
    let limit = wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let shown: Vec<Value> = newest_first(&matching).into_iter().take(limit).collect();
    Json(json!({"events": shown, "total": total}))
}

async fn within(caller: &Caller, namespace: &str) -> Result<Vec<Event>> {
    let events: Api<Event> = Api::namespaced(caller.client.clone(), namespace);
    Ok(events.list(&ListParams::default()).await?.items)
}

async fn about(caller: &Caller, namespace: &str, kind: &str, name: &str) -> Result<Vec<Event>> {
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let events: Api<Event> = Api::namespaced(caller.client.clone(), namespace);
    Ok(events.list(&ListParams::default().fields(&selector)).await?.items)
}

fn newest_first(events: &[Event]) -> Vec<Value> {
    let mut shown: Vec<Value> = events.iter().map(view).collect();
    shown.sort_by_key(|event| std::cmp::Reverse(event["at"].as_str().unwrap_or_default().to_owned()));
    shown
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
        "namespace": event.metadata.namespace,
        "object": format!("{}/{}", object.kind.as_deref().unwrap_or_default().to_lowercase(), object.name.as_deref().unwrap_or_default()),
    })
}
