//! A line for every change: who, what, from where, and how it ended. Never what was in it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;

use crate::app::App;
use crate::caller::Caller;
use crate::peer::Peer;

/// A file that grows past this is put aside; the one put aside before is dropped.
const LARGEST: u64 = 64 << 20;

/// Where the lines go: a file of JSON lines, and the log under the target `audit`.
#[derive(Default)]
pub struct Audit {
    file: Option<Mutex<Lines>>,
}

struct Lines {
    path: PathBuf,
    file: File,
    written: u64,
}

/// One change.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    time: String,
    user: &'a str,
    from: &'a str,
    method: &'a str,
    path: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a str>,
}

impl Audit {
    /// Appends to a file that only its owner can read.
    pub fn to(path: &Path) -> std::io::Result<Self> {
        let file = append(path)?;
        let written = file.metadata()?.len();
        Ok(Self { file: Some(Mutex::new(Lines { path: path.to_owned(), file, written })) })
    }

    fn write(&self, record: &Record) {
        let Record { user, from, method, path, status, .. } = *record;
        tracing::info!(target: "audit", user, from, method, path, status, "change");
        let Some(lines) = &self.file else { return };
        if let Err(error) = lines.lock().append(record) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}

impl Lines {
    fn append(&mut self, record: &Record) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if self.written >= LARGEST {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            self.file = append(&self.path)?;
            self.written = 0;
        }
        self.written += line.len() as u64;
        self.file.write_all(&line)
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Writes the line after the change. Opening a terminal is a change too, although it is a GET.
pub async fn record(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.method().is_safe() && !request.headers().contains_key(header::UPGRADE) {
        return next.run(request).await;
    }
    let user = request.extensions().get::<Caller>().map(|caller| caller.user.name.clone()).unwrap_or_default();
    let from = request.extensions().get::<Peer>().map(Peer::to_string).unwrap_or_default();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).map(str::to_owned);
    let response = next.run(request).await;
    app.audit.write(&Record {
        time: now(),
        user: &user,
        from: &from,
        method: method.as_str(),
        path: &path,
        status: response.status().as_u16(),
        user_agent: agent.as_deref(),
    });
    response
}

fn now() -> String {
    Timestamp::try_from(SystemTime::now()).map(|now| now.to_string()).unwrap_or_default()
}
