//! The shelf over HTTP: `POST /tasks/{task}` with an archive. The answer goes on as long as the files should stay.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt as _;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::{Refusal, Shelf};
use crate::env::{self, Env};

/// A repository larger than this is better cloned by the Agent itself.
const LARGEST: usize = 4 << 30;
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A Pod that does not acknowledge a heartbeat for so long is gone.
const SILENCE_MILLISECONDS: u32 = 20_000;

struct Face {
    shelf: Arc<Shelf>,
    token: String,
}

/// Serves until the process ends: `CONTEXT_PORT`, `CONTEXT_TOKEN`, `WORKSPACE_DIR`.
pub async fn run(env: &Env) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let workspace = PathBuf::from(env.get_or("WORKSPACE_DIR", "/workspace"));
    let token = env.require("CONTEXT_TOKEN")?.to_owned();
    let port = u16::try_from(env.number("CONTEXT_PORT", 0)?).map_err(|_| env::Error::Missing("CONTEXT_PORT"))?;
    let shelf = Arc::new(Shelf::open(&workspace)?);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
    // What it accepts has this from it. Without, the kernel tries for a quarter of an hour to reach a Pod that is gone.
    setsockopt(&listener, sockopt::TcpUserTimeout, &SILENCE_MILLISECONDS)?;
    Ok(axum::serve(listener, router(shelf, token)).await?)
}

/// The routes.
pub fn router(shelf: Arc<Shelf>, token: String) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/tasks/{task}", post(bring))
        .with_state(Arc::new(Face { shelf, token }))
}

async fn bring(State(face): State<Arc<Face>>, Path(task): Path<String>, headers: HeaderMap, body: Body) -> Response {
    if !is_allowed(&headers, &face.token) {
        // A caller that still sends does not listen.
        let _ = axum::body::to_bytes(body, 1 << 20).await;
        return refuse(StatusCode::UNAUTHORIZED, "ContextError", "the token is not the Agent's");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if task.starts_with('.') || !task.chars().all(plain) {
        return refuse(StatusCode::BAD_REQUEST, "ContextError", "a Task's name has letters, digits, dashes and dots");
    }
    let archive = match save(body).await {
        Ok(archive) => archive,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "ContextError", &error.to_string()),
    };
    let guard = Guard { shelf: face.shelf.clone(), task };
    // The guard goes along: a caller that leaves in the middle must not have the files put after they were taken away.
    let put = tokio::task::spawn_blocking(move || guard.shelf.put(&guard.task, &archive).map(|()| guard)).await;
    match put.unwrap_or_else(|panic| Err(Refusal::Io(std::io::Error::other(panic)))) {
        Ok(guard) => hold(guard),
        Err(refusal) => refuse(StatusCode::CONFLICT, refusal.reason(), &refusal.to_string()),
    }
}

/// Compared by their digests, so that the time it takes says nothing about the token.
fn is_allowed(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    Sha256::digest(given) == Sha256::digest(token)
}

async fn save(body: Body) -> std::io::Result<std::fs::File> {
    let mut file = tokio::fs::File::from_std(tempfile::tempfile()?);
    let mut parts = body.into_data_stream();
    let mut size = 0;
    while let Some(part) = parts.next().await {
        let part = part.map_err(std::io::Error::other)?;
        size += part.len();
        if size > LARGEST {
            return Err(std::io::Error::other("a Task may bring at most 4 GiB"));
        }
        file.write_all(&part).await?;
    }
    file.flush().await?;
    let mut file = file.into_std().await;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// Takes a Task's files away when the answer to its request ends.
struct Guard {
    shelf: Arc<Shelf>,
    task: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (from, task) = (self.shelf.clone(), std::mem::take(&mut self.task));
        // Removing a large repository takes its time.
        std::thread::spawn(move || from.take_away(&task));
    }
}

fn hold(guard: Guard) -> Response {
    let beats = futures::stream::unfold((guard, true), |(guard, first)| async move {
        if !first {
            tokio::time::sleep(HEARTBEAT).await;
        }
        Some((Ok::<_, Infallible>(Bytes::from_static(b"held\n")), (guard, false)))
    });
    Body::from_stream(beats).into_response()
}

fn refuse(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({ "reason": reason, "message": message }))).into_response()
}
