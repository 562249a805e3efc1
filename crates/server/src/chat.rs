//! A conversation with an `AgentRuntime`: the answer comes as server-sent events, as the runtime's facade sends them.
//!
//! The way there is the Kubernetes API's `portforward` to a Pod behind the runtime's Service, in the caller's own name:
//! whoever may not forward a port may not chat. So it works from wherever this server runs, and the caller can reach
//! nothing that they could not reach with `kubectl port-forward service/NAME`.

use std::time::Duration;

use api::omnia::routing::SESSION_HEADER;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::access::Resource;
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::Path;
use crate::kinds::Kind;
use crate::resources::ObjectPath;

/// How long it may take until the facade begins to answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Of a refusal no more than this is read.
const LARGEST_REFUSAL: usize = 64 * 1024;
const FORWARD: Resource<'static> = Resource { group: "", plural: "pods", subresource: "portforward" };

/// What is said to a runtime.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Said {
    /// The message.
    #[schemars(length(min = 1))]
    message: String,
    /// The conversation that it belongs to; a new one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// Values for the prompt's variables.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    variables: Map<String, Value>,
}

/// `POST …/agentruntimes/{name}/chat`.
pub async fn chat(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): ObjectPath,
    body: Bytes,
) -> Result<Response> {
    let mut said: Said = serde_json::from_slice(&body)
        .map_err(|error| Error::bad_request(format!("The body cannot be read: {error}")))?;
    // A canary's router keeps a session on one side by its name, so it has one from its first word on.
    said.session_id.get_or_insert_with(|| Uuid::new_v4().to_string());
    let runtimes = Kind::by_plural("agentruntimes").expect("agentruntimes are in the table");
    runtimes.api(&caller.client, Some(&namespace)).get(&name).await?;
    if !caller.may("create", FORWARD, &namespace).await? {
        return Err(caller.forbidden("create pods/portforward, by which a runtime is reached"));
    }
    let service = Api::<Service>::namespaced(caller.client.clone(), &namespace).get(&name).await?;
    let caller = Caller::new(&app.upgrades().await?, caller.user)?;
    let pods: Api<Pod> = Api::namespaced(caller.client, &namespace);
    let (pod, port) = behind(&pods, &service).await?;
    let answer = tokio::time::timeout(PATIENCE, ask(&pods, &pod, port, &said)).await;
    answer.unwrap_or_else(|_| Err(silent(&pod, "it did not answer in time")))
}

fn silent(pod: &str, why: &str) -> Error {
    Error::new(StatusCode::BAD_GATEWAY, "RuntimeUnavailable", format!("Pod {pod} cannot be asked: {why}"))
}

/// A Pod that answers for a Service, and where it listens.
async fn behind(pods: &Api<Pod>, service: &Service) -> Result<(String, u16)> {
    let spec = service.spec.clone().unwrap_or_default();
    let selector: Vec<String> =
        spec.selector.unwrap_or_default().iter().map(|(key, value)| format!("{key}={value}")).collect();
    let ports = spec.ports.unwrap_or_default();
    let port = ports.iter().find(|port| port.name.as_deref() == Some("facade")).or(ports.first());
    let not_running = |why: &str| {
        let message = format!("AgentRuntime {} has no Pod that answers: {why}", service.name_any());
        Error::new(StatusCode::CONFLICT, "NotRunning", message)
    };
    let (Some(port), false) = (port, selector.is_empty()) else {
        return Err(not_running("its Service leads nowhere"));
    };
    let list = pods.list(&ListParams::default().labels(&selector.join(","))).await?;
    let pod = list.items.iter().find(|pod| is_ready(pod));
    let pod = pod.ok_or_else(|| not_running("its page says what is wrong; it is asked again when you send again"))?;
    let number = target(pod, port).ok_or_else(|| not_running("its Service's port is none of the Pod's"))?;
    Ok((pod.name_any(), number))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The port of the Pod that a port of a Service leads to.
fn target(pod: &Pod, port: &ServicePort) -> Option<u16> {
    let number = match &port.target_port {
        None => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            ports.find(|port| port.name.as_ref() == Some(name))?.container_port
        }
    };
    u16::try_from(number).ok()
}

/// Asks the facade; its stream becomes ours. Whoever stops listening ends it there too.
async fn ask(pods: &Api<Pod>, pod: &str, port: u16, said: &Said) -> Result<Response> {
    let mut forward = pods.portforward(pod, &[port]).await?;
    let stream = forward.take_stream(port).ok_or_else(|| silent(pod, "the port was not forwarded"))?;
    let broken = |error: hyper::Error| silent(pod, &error.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a conversation was broken off");
        }
        drop(forward);
    });
    let body = serde_json::to_vec(said).map_err(|error| Error::bad_request(error.to_string()))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/chat")
        .header(header::HOST, "runtime")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "text/event-stream")
        .header(SESSION_HEADER, said.session_id.as_deref().unwrap_or_default())
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| Error::bad_request(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    if !status.is_success() {
        let text = Limited::new(response.into_body(), LARGEST_REFUSAL).collect().await;
        let text = text.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
        return Err(silent(pod, &format!("it answered {status}: {}", text.trim())));
    }
    let events = HeaderValue::from_static("text/event-stream");
    Ok(([(header::CONTENT_TYPE, events)], Body::new(response.into_body())).into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_named_port_is_the_containers() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"containers": [
                {"name": "facade", "ports": [{"name": "facade", "containerPort": 8081}]},
                {"name": "runtime"},
            ]},
        }))
        .expect("a Pod");
        let port = |target: Value| serde_json::from_value(json!({"port": 80, "targetPort": target})).expect("a port");
        assert_eq!(target(&pod, &port(json!("facade"))), Some(8081));
        assert_eq!(target(&pod, &port(json!(9000))), Some(9000));
        assert_eq!(target(&pod, &port(Value::Null)), Some(80));
        assert_eq!(target(&pod, &port(json!("nowhere"))), None);
    }
}
