//! A terminal in an Agent's Pod: a WebSocket on this side, the Kubernetes API's `exec` on the other.
//!
//! Binary frames are the terminal's bytes both ways; a text frame `{"type":"resize","cols":80,"rows":24}` tells the
//! terminal its size. What ends the session is said in a last text frame `{"type":"end","message":…}`.

use std::time::Duration;

use api::kubeopencode::names::AGENT_LABEL;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use futures::SinkExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, ListParams, TerminalSize};
use kube::{Api, ResourceExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::access::Resource;
use crate::app::App;
use crate::auth::Leave;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::kinds::Kind;
use crate::resources::ObjectPath;

/// The container that serves the Agent.
const CONTAINER: &str = "opencode-server";
/// Proxies cut connections on which nothing moves.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// The largest frame that is taken from a browser: a big paste.
const LARGEST: usize = 1 << 20;

const EXEC: Resource<'static> = Resource { group: "", plural: "pods", subresource: "exec" };

/// What to run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Wanted {
    /// `shell` unless told, or `opencode` for the agent's own interface.
    program: Option<Program>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Program {
    Shell,
    Opencode,
}

#[derive(Deserialize)]
struct Resize {
    cols: u16,
    rows: u16,
}

/// `GET …/agents/{name}/terminal`.
pub async fn open(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(leave): Extension<Leave>,
    Path((namespace, name)): ObjectPath,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
    upgrade: std::result::Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response> {
    same_origin(&headers)?;
    let agents = Kind::by_plural("agents").expect("agents are in the table").api(&caller.client, Some(&namespace));
    let agent = agents.get(&name).await?;
    let port = agent.data["spec"]["port"].as_u64().unwrap_or(api::kubeopencode::names::DEFAULT_PORT.into());
    let command = match wanted.program.unwrap_or(Program::Shell) {
        Program::Shell => vec!["/bin/sh".to_owned()],
        Program::Opencode => {
            vec!["/tools/opencode".to_owned(), "attach".to_owned(), format!("http://localhost:{port}")]
        }
    };
    if !caller.may("create", EXEC, &namespace).await? {
        return Err(caller.forbidden("create pods/exec, by which a terminal is opened"));
    }
    let caller = Caller::new(&app.upgrades().await?, caller.user)?;
    let pods: Api<Pod> = Api::namespaced(caller.client, &namespace);
    let pod = running(&pods, &name).await?;
    // Last, so that a plain request learns why a terminal would be refused: a WebSocket does not tell its page.
    let upgrade = upgrade.map_err(|rejection| Error::bad_request(rejection.body_text()))?;
    let parameters = AttachParams::interactive_tty().container(CONTAINER).max_stdout_buf_size(64 * 1024);
    let process = pods.exec(&pod, command, &parameters).await?;
    Ok(upgrade.max_message_size(LARGEST).on_upgrade(|socket| relay(socket, process, leave.over(app))))
}

/// A page of another origin may open a WebSocket here and the browser would send our cookie along: not to be allowed.
/// Programs send no origin.
fn same_origin(headers: &HeaderMap) -> Result<()> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    let host = origin.split_once("://").map(|(_, host)| host);
    if host.is_some() && host == text(header::HOST) {
        return Ok(());
    }
    Err(Error::forbidden(format!("A page of {origin} may not open a terminal here")))
}

async fn running(pods: &Api<Pod>, agent: &str) -> Result<String> {
    let list = pods.list(&ListParams::default().labels(&format!("{AGENT_LABEL}={agent}"))).await?;
    let serves = |pod: &&Pod| {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        let runs = |container: &&k8s_openapi::api::core::v1::ContainerStatus| {
            container.name == CONTAINER && container.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        pod.metadata.deletion_timestamp.is_none() && containers.iter().any(|container| runs(&container))
    };
    list.items.iter().find(serves).map(ResourceExt::name_any).ok_or_else(|| {
        let why = format!("Agent {agent} has no running Pod. If it is suspended, resume it; its events say more");
        Error::new(axum::http::StatusCode::CONFLICT, "NotRunning", why)
    })
}

/// Carries bytes both ways until either side ends, or the caller's time is over.
async fn relay(mut socket: WebSocket, mut process: AttachedProcess, over: impl Future<Output = ()>) {
    let (Some(mut output), Some(mut input)) = (process.stdout(), process.stdin()) else { return };
    let mut sizes = process.terminal_size();
    let mut buffer = vec![0; 16 * 1024];
    let mut pings = tokio::time::interval(KEEP_ALIVE);
    let mut over = std::pin::pin!(over);
    let mut why = "The terminal's program has ended.";
    loop {
        tokio::select! {
            () = &mut over => {
                why = "You have signed out, or your token was taken away.";
                break;
            }
            read = output.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    if socket.send(Message::Binary(Bytes::copy_from_slice(&buffer[..count]))).await.is_err() {
                        break;
                    }
                }
            },
            _ = pings.tick() => if socket.send(Message::Ping(Bytes::new())).await.is_err() { break },
            message = socket.recv() => match message {
                Some(Ok(Message::Binary(bytes))) => if input.write_all(&bytes).await.is_err() { break },
                Some(Ok(Message::Text(text))) => if let Ok(Resize { cols, rows }) = serde_json::from_str(&text)
                    && let Some(sizes) = &mut sizes
                {
                    // A terminal that has just ended needs no size.
                    let _ = sizes.send(TerminalSize { width: cols, height: rows }).await;
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            },
        }
    }
    drop(input);
    let end = json!({"type": "end", "message": why}).to_string();
    // Whoever has gone does not hear it.
    let _ = socket.send(Message::Text(end.into())).await;
    let _ = socket.close().await;
    process.abort();
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_our_own_pages_and_programs_open_a_terminal() {
        let allowed = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:2746"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            same_origin(&headers).is_ok()
        };
        assert!(allowed(None));
        assert!(allowed(Some("http://127.0.0.1:2746")));
        for foreign in ["http://127.0.0.1:8080", "https://example.com", "null", "http://127.0.0.1:2746.example.com"] {
            assert!(!allowed(Some(foreign)), "{foreign}");
        }
    }
}
