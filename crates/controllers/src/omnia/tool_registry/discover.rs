//! Asks servers what tools they have.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::LogParams;
use parking_lot::Mutex;
use tools::connect::{Connect, Network, Stream};
use tools::{Client, Found, Problem};

use super::locate::Place;
use super::question::{Question, Stop, What};
use crate::ask::{Dial, Server};

/// What a server says about its tools.
pub type Answer = Result<Vec<Found>, Problem>;

/// Asks servers what tools they have. Implementations bound what they do in time and size.
pub trait Discover: fmt::Debug + Send + Sync + 'static {
    /// Asks.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer>;
    /// Reads what a Pod that has ended found out about a program.
    fn read<'a>(&'a self, client: &'a kube::Client, pod: &'a Pod, endpoint: &'a str) -> BoxFuture<'a, Answer>;
}

/// An answer that is not older is given again: a registry is looked at again because of its own status, and a server that
/// says something else each time must not make that a circle.
const FRESH: Duration = Duration::from_secs(5);

/// How much of a Pod's log is read, and how long that may take.
const MOST_OF_A_LOG: i64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks over the network, and Pods as `dial` reaches them.
pub struct Asker {
    dial: Option<Arc<dyn Dial>>,
    known: Mutex<BTreeMap<Question, (Instant, Answer)>>,
}

impl Asker {
    /// Reaches Pods by `dial`; without it, only what the network knows.
    pub fn new(dial: Option<Arc<dyn Dial>>) -> Self {
        Self { dial, known: Mutex::default() }
    }

    async fn answer(&self, question: &Question) -> Answer {
        let (place, stops) = (question.place.clone(), question.stops.clone());
        let client = Client::through(Arc::new(Route { place, stops, dial: self.dial.clone() }))?;
        match &question.what {
            What::OpenApi(source) => client.operations(source, question.patience).await,
            What::Mcp(source) => client.mcp_tools(source, question.patience).await,
            What::Grpc { endpoint, tls } => client.grpc_methods(endpoint, *tls, question.patience).await,
        }
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Asker").finish_non_exhaustive()
    }
}

impl Discover for Asker {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let known = self.known.lock().get(question).filter(|(at, _)| at.elapsed() < FRESH).cloned();
            if let Some((_, answer)) = known {
                return answer;
            }
            let answer = self.answer(question).await;
            let mut known = self.known.lock();
            known.retain(|_, (at, _)| at.elapsed() < FRESH);
            known.insert(question.clone(), (Instant::now(), answer.clone()));
            answer
        })
    }

    fn read<'a>(&'a self, client: &'a kube::Client, pod: &'a Pod, endpoint: &'a str) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let api: kube::Api<Pod> = kube::Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            let parameters = LogParams { limit_bytes: Some(MOST_OF_A_LOG), ..LogParams::default() };
            let log = tokio::time::timeout(PATIENCE, api.logs(&pod.name_any(), &parameters)).await;
            let lost = |message: String| Problem { reason: "Unreachable", message };
            let log = log.map_err(|_| lost("the Pod's log cannot be read in time".into()))?;
            let log = log.map_err(|error| lost(format!("the Pod's log cannot be read: {error}")))?;
            let endpoint = endpoint.to_owned();
            let read = tokio::task::spawn_blocking(move || tools::mcp::report::read(&log, &endpoint)).await;
            read.unwrap_or_else(|error| Err(lost(format!("the Pod's log cannot be read: {error}"))))
        })
    }
}

/// The way to one place, and to no other.
struct Route {
    place: Place,
    stops: Vec<Stop>,
    dial: Option<Arc<dyn Dial>>,
}

impl fmt::Debug for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Route").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Route {
    async fn stop(&self, stop: &Stop) -> io::Result<Box<dyn Stream>> {
        match (stop, &self.dial) {
            (Stop::Host(place), _) => Network.connect(&place.host, place.port).await,
            (Stop::Pod { namespace, name, port }, Some(dial)) => {
                let server = Server { namespace: namespace.clone(), pod: name.clone(), port: *port };
                Ok(Box::new(dial.dial(&server).await?) as Box<dyn Stream>)
            }
            (Stop::Pod { .. }, None) => Err(io::Error::other("there is no way to Pods from here")),
        }
    }
}

impl Connect for Route {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            if !host.eq_ignore_ascii_case(&self.place.host) || port != self.place.port {
                let message = format!("{host}:{port} is not what the handler names");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
            }
            let mut failed = None;
            for stop in &self.stops {
                match self.stop(stop).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                Some(error) => Err(error),
                None => Network.connect(host, port).await,
            }
        })
    }
}
