//! Requests to the Kubernetes API: bounded in time, repeated where that is safe, and with an honest answer to the one
//! question that matters after a write: was it done, was it refused, or is that unclear?

use std::fmt;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::failure::{Category, Failure};
use crate::target::Patience;

/// How often a request is sent at most.
const TRIES: u32 = 4;
/// The longest pause that a server may ask for.
const LONGEST: Duration = Duration::from_secs(30);

/// A request that did not succeed.
#[derive(Clone, Debug)]
pub struct Error {
    /// The HTTP status; nothing when there was no answer.
    pub code: Option<u16>,
    /// The server's word for it.
    pub reason: String,
    /// The server's sentence, or what happened to the connection.
    pub message: String,
    retry_after: Option<Duration>,
    timeout: bool,
    absent: bool,
}

impl Error {
    /// The request may have been carried out.
    pub fn is_unclear(&self) -> bool {
        self.code.is_none_or(|code| code >= 500)
    }

    /// The object is not there. A 404 that names no object may come from anyone on the way, and proves nothing.
    pub fn is_not_found(&self) -> bool {
        self.code == Some(404) && self.absent
    }

    pub fn is_already_there(&self) -> bool {
        self.code == Some(409) && self.reason == "AlreadyExists"
    }

    /// The object is not the one that was read.
    pub fn is_conflict(&self) -> bool {
        self.code == Some(409) && self.reason != "AlreadyExists"
    }

    /// As users read it.
    pub fn failure(&self) -> Failure {
        let (category, hint) = match self.code {
            Some(401) => (Category::Permission, "the token or the kubeconfig is not accepted: renew it"),
            Some(403) => (Category::Permission, "the user lacks the right: ask for a role that allows it"),
            Some(404) => (Category::NotFound, "check the workspace; are the definitions installed (`orrery crds`)?"),
            Some(409) => (Category::Conflict, "plan again"),
            Some(429) => (Category::Network, "the API server is busy: try again later"),
            Some(code) if code >= 500 => (Category::Network, "the API server broke down: try again"),
            Some(_) => (Category::Resource, "mend what the message names"),
            None if self.timeout => (Category::Timeout, "the API server does not answer: try again"),
            None => (Category::Network, "is the API server running and reachable?"),
        };
        let code = self.code.map(|code| format!("HTTP {code}: ")).unwrap_or_default();
        Failure::new(category, format!("{code}{}", self.message)).hint(hint)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The API, for this module's few verbs.
#[derive(Clone)]
pub struct Http {
    client: Client,
    patience: Patience,
}

impl Http {
    pub fn new(client: Client, patience: Patience) -> Self {
        Self { client, patience }
    }

    /// A pause before the next try.
    pub async fn pause(&self, attempt: u32) {
        tokio::time::sleep(self.patience.pause * 2u32.pow(attempt.min(6))).await;
    }

    /// Reads; tried again whatever happens, as long as it may help.
    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        let mut attempt = 0;
        loop {
            let answer = self.send(Method::GET, path, None).await;
            attempt += 1;
            match answer {
                Err(error) if error.is_unclear() && attempt < TRIES => self.pause(attempt).await,
                answer => return answer,
            }
        }
    }

    /// Reads what may not be there.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, Error> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request once; again only where the server says that it did nothing and when to come back.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let mut attempt = 0;
        loop {
            let answer = match tokio::time::timeout(self.patience.request, self.once(&method, path, body)).await {
                Ok(answer) => answer,
                Err(_) => Err(Error {
                    code: None,
                    reason: "Timeout".into(),
                    message: format!("no answer to {method} {path} within {} s", self.patience.request.as_secs_f32()),
                    retry_after: None,
                    timeout: true,
                    absent: false,
                }),
            };
            attempt += 1;
            match answer {
                Err(error) if error.code == Some(429) && attempt < TRIES => match error.retry_after {
                    Some(time) => tokio::time::sleep(time.min(LONGEST)).await,
                    None => self.pause(attempt).await,
                },
                answer => return answer,
            }
        }
    }

    async fn once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let bytes = body.map(|body| serde_json::to_vec(body).expect("JSON serializes")).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(bytes)).expect("paths are built from checked names");
        let answer = self.client.send(request).await.map_err(|error| lost(&error))?;
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.map_err(|error| lost(&error))?.to_bytes();
        if parts.status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| lost(&error));
        }
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = |field: &str| status[field].as_str().map(str::to_owned);
        let seconds = parts.headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        Err(Error {
            code: Some(parts.status.as_u16()),
            reason: text("reason").unwrap_or_default(),
            message: text("message").unwrap_or_else(|| parts.status.to_string()),
            retry_after: seconds.map(Duration::from_secs),
            timeout: false,
            absent: status["reason"] == "NotFound" && status["details"]["name"].is_string(),
        })
    }
}

/// No answer, or not all of it.
fn lost(error: &(dyn std::error::Error + 'static)) -> Error {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !message.contains(&cause_text) {
            message = format!("{message}: {cause_text}");
        }
        source = cause.source();
    }
    Error { code: None, reason: "Unreachable".into(), message, retry_after: None, timeout: false, absent: false }
}
