//! Asking Pods over HTTP, bounded in time and size: how controllers learn what the API server does not know.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

/// A port of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Where it listens.
    pub port: u16,
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

/// How much is waited for, and read.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How long an answer may take.
    pub patience: Duration,
    /// How long it may be, in bytes.
    pub largest: usize,
}

/// What a Pod answers, if it does: JSON.
pub(crate) async fn ask(dial: &dyn Dial, server: &Server, method: Method, path: &str, bounds: Bounds) -> Option<Value> {
    let asked = tokio::time::timeout(bounds.patience, exchange(dial, server, method, path, bounds.largest)).await;
    match asked.unwrap_or_else(|_| Err("no answer in time".into())) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::debug!(pod = server.pod, path, error = error.to_string(), "the Pod could not be asked");
            None
        }
    }
}

async fn exchange(
    dial: &dyn Dial,
    server: &Server,
    method: Method,
    path: &str,
    largest: usize,
) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
    let stream = dial.dial(server).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder().method(method).uri(path).header("host", "agent").body(Empty::<Bytes>::new())?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), largest).collect().await?.to_bytes();
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

/// Asks Pods of agents what they do. Implementations bound what they do in time and size.
pub trait Ask: fmt::Debug + Send + Sync + 'static {
    /// What the Pod answers to a `GET`, if it does: JSON.
    fn get<'a>(&'a self, server: &'a Server, path: &'a str) -> BoxFuture<'a, Option<Value>>;
}

/// Nobody to ask: for tests of everything else.
#[derive(Debug)]
pub struct Nobody;

impl Ask for Nobody {
    fn get<'a>(&'a self, _: &'a Server, _: &'a str) -> BoxFuture<'a, Option<Value>> {
        Box::pin(std::future::ready(None))
    }
}

/// Asks over connections.
#[derive(Clone)]
pub struct Dialled(pub Arc<dyn Dial>);

impl fmt::Debug for Dialled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Dialled")
    }
}

impl Ask for Dialled {
    fn get<'a>(&'a self, server: &'a Server, path: &'a str) -> BoxFuture<'a, Option<Value>> {
        let bounds = Bounds { patience: Duration::from_secs(3), largest: 1 << 20 };
        Box::pin(ask(&*self.0, server, Method::GET, path, bounds))
    }
}
