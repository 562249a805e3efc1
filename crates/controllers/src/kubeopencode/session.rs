//! What the agent's server knows about a Task's session, after the Task's Pod has ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::kubeopencode::account::{Report, summarise};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

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
