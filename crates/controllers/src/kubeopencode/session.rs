//! What the agent's server knows about a Task's session, after the Task's Pod has ended.

use std::sync::Arc;
use std::time::Duration;

use api::kubeopencode::account::{Report, summarise};
use futures::future::BoxFuture;
use http::Method;
use serde_json::Value;

use crate::ask::{Bounds, Dial, Server, ask};

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
        ask(&*self.dial, server, method, path, Bounds { patience: PATIENCE, largest: LARGEST }).await
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
