//! The Task's side: its files are sent, and the connection is kept while it works.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use super::{Item, pack};
use crate::env::{self, Env};

/// A server that is being replaced comes back within this time.
const PATIENCE: Duration = Duration::from_mins(1);

/// What to send where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's address for this Task.
    pub url: String,
    /// Its token.
    pub token: String,
    /// What to send.
    pub items: Vec<Item>,
}

impl Settings {
    /// `CONTEXT_URL`, `CONTEXT_TOKEN`, `CONTEXT_ITEMS`; `None` when there is nothing to send.
    pub fn from_env(env: &Env) -> Result<Option<Self>, env::Error> {
        let Some(url) = env.get("CONTEXT_URL").map(str::to_owned) else { return Ok(None) };
        let token = env.require("CONTEXT_TOKEN")?.to_owned();
        Ok(Some(Self { url, token, items: env.json("CONTEXT_ITEMS")? }))
    }
}

/// Files that stay on the server as long as this lives.
pub struct Lease {
    beats: tokio::task::JoinHandle<()>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The stable word.
    pub reason: String,
    /// What happened.
    pub message: String,
}

impl Error {
    fn new(message: impl std::fmt::Display) -> Self {
        Self { reason: "ContextError".into(), message: message.to_string() }
    }
}

/// Sends; the files are in place when this returns.
pub async fn send(settings: &Settings) -> Result<Lease, Error> {
    let file = tempfile::NamedTempFile::new().map_err(Error::new)?;
    pack(&settings.items, std::io::BufWriter::new(file.as_file())).map_err(Error::new)?;
    let client = reqwest::Client::builder().no_proxy().build().map_err(Error::new)?;
    let begin = tokio::time::Instant::now();
    let response = loop {
        let body = tokio::fs::File::open(file.path()).await.map_err(Error::new)?;
        let request = client.post(&settings.url).bearer_auth(&settings.token).body(body);
        match request.send().await {
            Ok(response) => break response,
            Err(error) if error.is_connect() && begin.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Err(error) => {
                return Err(Error::new(format_args!("the Agent's server cannot take the Task's contexts: {error}")));
            }
        }
    };
    Lease::of(response).await
}

impl Lease {
    /// Reads the server's answer, which goes on as long as the files should stay.
    pub async fn of(response: reqwest::Response) -> Result<Self, Error> {
        if !response.status().is_success() {
            let status = response.status();
            let body: Value = response.json().await.unwrap_or_default();
            let text = |field: &str| body[field].as_str().map(str::to_owned);
            let message = text("message").unwrap_or_else(|| format!("the Agent's server answered {status}"));
            return Err(Error { reason: text("reason").unwrap_or_else(|| "ContextError".into()), message });
        }
        let mut beats = response.bytes_stream();
        match beats.next().await {
            Some(Ok(_)) => {}
            _ => return Err(Error::new("the Agent's server ended while it took the Task's contexts")),
        }
        let beats = tokio::spawn(async move {
            while let Some(Ok(_)) = beats.next().await {}
            tracing::warn!("the connection that keeps the Task's contexts ended; the Agent's server was restarted");
        });
        Ok(Self { beats })
    }
}
