//! What the agent's server knows about a Task's session, after the Task's Pod has ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::kubeopencode::{Session, SessionSummary, TokenUsage};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

/// A session as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What goes into the Task's status.
    pub session: Session,
    /// The error that the session ended with. The process may have said 0 all the same.
    pub error: Option<String>,
}

/// The Pod of an Agent's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Where it listens.
    pub port: u16,
}

/// Asks agents about sessions. Implementations bound what they do in time and size.
pub trait Sessions: Send + Sync + 'static {
    /// Looks for the newest session with this title; `None` when it cannot be had.
    fn find<'a>(&'a self, server: &'a Server, title: &'a str) -> BoxFuture<'a, Option<Report>>;
    /// Asks the agent to stop working on the session with this title.
    fn abort<'a>(&'a self, server: &'a Server, title: &'a str) -> BoxFuture<'a, ()>;
}

/// Nobody to ask: for tests of everything else.
pub struct NoSessions;

impl Sessions for NoSessions {
    fn find<'a>(&'a self, _: &'a Server, _: &'a str) -> BoxFuture<'a, Option<Report>> {
        Box::pin(std::future::ready(None))
    }

    fn abort<'a>(&'a self, _: &'a Server, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A connection to a port of a Pod.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to Pods: a cluster's API server does it, and on one machine the node.
pub trait Dial: Send + Sync + 'static {
    /// Connects.
    fn dial<'a>(&'a self, server: &'a Server) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;
}

/// Connects through the API server of a cluster.
pub struct PortForward(pub kube::Client);

impl Dial for PortForward {
    fn dial<'a>(&'a self, server: &'a Server) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
                kube::Api::namespaced(self.0.clone(), &server.namespace);
            let mut forward = pods.portforward(&server.pod, &[server.port]).await.map_err(io::Error::other)?;
            let stream =
                forward.take_stream(server.port).ok_or_else(|| io::Error::other("the port was not forwarded"))?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// A server that does not answer in this time is not waited for: the Task's end does not depend on it.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than this is not read: a session's messages can be large.
const LARGEST: usize = 64 << 20;

/// Asks over HTTP, as OpenCode serves it.
pub struct HttpSessions {
    dial: Arc<dyn Dial>,
}

impl HttpSessions {
    /// Reaches servers by `dial`.
    pub fn new(dial: Arc<dyn Dial>) -> Self {
        Self { dial }
    }

    async fn ask(&self, server: &Server, method: Method, path: &str) -> Option<Value> {
        let asked = tokio::time::timeout(PATIENCE, self.exchange(server, method, path)).await;
        match asked.unwrap_or_else(|_| Err("no answer in time".into())) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::debug!(pod = server.pod, path, error = error.to_string(), "the agent could not be asked");
                None
            }
        }
    }

    async fn exchange(
        &self,
        server: &Server,
        method: Method,
        path: &str,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let stream = self.dial.dial(server).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::builder().method(method).uri(path).header("host", "agent").body(Empty::<Bytes>::new())?;
        let answer = async move {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST).collect().await?.to_bytes();
            if !status.is_success() {
                return Err(format!("answered {status}").into());
            }
            Ok(serde_json::from_slice(&body)?)
        };
        tokio::select! {
            answer = answer => answer,
            // The connection must be driven for an answer to come.
            ended = connection => Err(ended.err().map_or_else(|| "the connection ended".into(), Into::into)),
        }
    }

    async fn newest(&self, server: &Server, title: &str) -> Option<Value> {
        let sessions = self.ask(server, Method::GET, "/session").await?;
        let titled = sessions.as_array()?.iter().filter(|session| session["title"] == title);
        titled.max_by_key(|session| session["time"]["created"].as_i64()).cloned()
    }
}

impl Sessions for HttpSessions {
    fn find<'a>(&'a self, server: &'a Server, title: &'a str) -> BoxFuture<'a, Option<Report>> {
        Box::pin(async move {
            let session = self.newest(server, title).await?;
            let id = session["id"].as_str()?;
            let messages = self.ask(server, Method::GET, &format!("/session/{id}/message")).await.unwrap_or_default();
            Some(summarise(&session, messages.as_array().map_or(&[], Vec::as_slice)))
        })
    }

    fn abort<'a>(&'a self, server: &'a Server, title: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(session) = self.newest(server, title).await else { return };
            let Some(id) = session["id"].as_str() else { return };
            if self.ask(server, Method::POST, &format!("/session/{id}/abort")).await.is_none() {
                tracing::warn!(title, "the agent's session could not be aborted");
            }
        })
    }
}

/// Adds up what a session used, and finds the error it ended with.
pub fn summarise(session: &Value, messages: &[Value]) -> Report {
    let infos: Vec<&Value> = messages.iter().map(|message| message.get("info").unwrap_or(message)).collect();
    let answers: Vec<&&Value> = infos.iter().filter(|info| info["role"] == "assistant").collect();
    let tokens = |path: &str| answers.iter().filter_map(|info| info["tokens"].pointer(path)?.as_i64()).sum::<i64>();
    let cost: f64 = answers.iter().filter_map(|info| info["cost"].as_f64()).sum();
    let change = |field: &str| session["summary"][field].as_i64().and_then(|count| i32::try_from(count).ok());
    let text = |field: &str| session[field].as_str().map(str::to_owned);
    let summary = SessionSummary {
        message_count: i32::try_from(infos.len()).ok(),
        token_usage: Some(TokenUsage {
            input: tokens("/input"),
            output: tokens("/output"),
            reasoning: tokens("/reasoning"),
            cache: tokens("/cache/read") + tokens("/cache/write"),
        }),
        cost: Some(format!("{cost:.6}")),
        files_changed: change("files"),
        additions: change("additions"),
        deletions: change("deletions"),
    };
    let error = answers.last().and_then(|info| error_of(&info["error"]));
    Report { session: Session { id: text("id"), title: text("title"), summary: Some(summary) }, error }
}

fn error_of(error: &Value) -> Option<String> {
    let name = error["name"].as_str()?;
    let message = error["data"]["message"].as_str().unwrap_or_default();
    Some(if message.is_empty() { name.to_owned() } else { format!("{name}: {message}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_and_cost_are_of_the_agents_answers() {
        let session = json!({ "id": "s1", "title": "t", "summary": { "files": 2, "additions": 5, "deletions": 1 } });
        let answer = |cost: f64| {
            json!({ "info": { "role": "assistant", "cost": cost,
            "tokens": { "input": 10, "output": 3, "reasoning": 1, "cache": { "read": 4, "write": 2 } } } })
        };
        let messages = [json!({ "info": { "role": "user" } }), answer(0.25), answer(0.5)];
        let report = summarise(&session, &messages);
        let summary = report.session.summary.expect("a summary");
        assert_eq!((summary.message_count, summary.cost.as_deref()), (Some(3), Some("0.750000")));
        let tokens = summary.token_usage.expect("tokens");
        assert_eq!((tokens.input, tokens.output, tokens.reasoning, tokens.cache), (20, 6, 2, 12));
        assert_eq!((summary.files_changed, summary.additions, summary.deletions), (Some(2), Some(5), Some(1)));
        assert_eq!(report.error, None);
    }

    #[test]
    fn the_last_answers_error_is_the_sessions() {
        let failed = json!({ "info": { "role": "assistant",
            "error": { "name": "ProviderModelNotFoundError", "data": { "message": "no such model" } } } });
        let report = summarise(&json!({ "id": "s" }), &[failed]);
        assert_eq!(report.error.as_deref(), Some("ProviderModelNotFoundError: no such model"));
    }
}
