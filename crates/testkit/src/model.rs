//! A scripted model server on loopback, for tests with a real agent.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

pub use model::{Call, Conversation, Script, Turn, Usage};

/// A running model. Dropping it ends it.
pub struct Model {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
    _serving: AbortOnDropHandle<()>,
}

struct Recorded<S> {
    script: S,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl<S: Script> Script for Recorded<S> {
    fn turn(&self, conversation: Conversation) -> BoxFuture<'static, Turn> {
        self.requests.lock().push(conversation.request().clone());
        self.script.turn(conversation)
    }
}

impl Model {
    /// Serves a script.
    pub async fn start(script: impl Script) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Recorded { script, requests: requests.clone() };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let router = model::router(Arc::new(recorded));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("the model serves") });
        Self { address, requests, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().clone()
    }

    /// OpenCode's configuration for it, as a Pod of this machine's plane needs it: 2 and 10 dollars for a million tokens.
    pub fn config(&self) -> Value {
        let url = format!("http://host.orrery.internal:{}/v1", self.address.port());
        model::opencode::config("scripted", "a script of this test", &url, (2.0, 10.0))
    }
}
