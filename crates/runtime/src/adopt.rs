//! A conversation that moved here: while a router sends sessions to one of two Deployments, the one that a session comes to
//! asks where it was for what was said there. Nothing is lost when a share changes, a version is promoted or given up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::omnia::routing::Routing;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::session::Sessions;

/// The other side answers in this time or the conversation begins anew.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was said in a conversation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Value>,
}

/// Who else may know a conversation.
pub(crate) struct Neighbours {
    http: reqwest::Client,
    /// What a router is told; there only while one stands in front.
    routing: Option<PathBuf>,
    /// Where runtimes listen, on both sides.
    port: u16,
}

impl Neighbours {
    pub(crate) fn new(routing: Option<&str>, port: u16) -> Result<Self, Error> {
        let http = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build();
        let http = http.map_err(|error| Error::Client(error.to_string()))?;
        Ok(Self { http, routing: routing.map(PathBuf::from), port })
    }

    /// Takes over a conversation that is not known here, if somebody has it.
    pub(crate) async fn adopt(&self, id: &str, sessions: &Sessions) {
        let Some(routing) = self.routing.as_deref().and_then(read).filter(|_| !sessions.knows(id)) else { return };
        for address in [&routing.stable, &routing.canary] {
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            if let Some(conversation) = self.take(host, id).await {
                sessions.remember(id, conversation.messages);
                return;
            }
        }
    }

    async fn take(&self, host: &str, id: &str) -> Option<Conversation> {
        let mut url = reqwest::Url::parse(&format!("http://{host}:{}/v1/sessions", self.port)).ok()?;
        url.path_segments_mut().ok()?.push(id);
        let answer = self.http.delete(url).send().await.and_then(reqwest::Response::error_for_status);
        match answer {
            Ok(answer) => answer.json().await.ok(),
            Err(error) => {
                // Most are asked for conversations that are new.
                tracing::debug!(error = error.without_url().to_string(), "no conversation to take over");
                None
            }
        }
    }
}

fn read(path: &Path) -> Option<Routing> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::extract::{Path, State};
    use axum::http::StatusCode;
    use axum::routing::delete;
    use serde_json::json;

    use super::*;

    /// The other side, as `runtime` serves it.
    async fn elsewhere(sessions: Arc<Sessions>) -> u16 {
        let give_up = async |State(sessions): State<Arc<Sessions>>, Path(id): Path<String>| {
            let given = sessions.give_up(&id).map(|messages| axum::Json(Conversation { messages }));
            given.ok_or(StatusCode::NOT_FOUND)
        };
        let router = Router::new().route("/v1/sessions/{id}", delete(give_up)).with_state(sessions);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        port
    }

    #[tokio::test]
    async fn a_conversation_goes_on_where_its_session_moved() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (there, here) = (Arc::new(Sessions::new(Duration::from_hours(1))), Sessions::new(Duration::from_hours(1)));
        there.remember("a/b", vec![json!("hello")]);
        let port = elsewhere(Arc::clone(&there)).await;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("routing.json");
        let neighbours = Neighbours::new(file.to_str(), port).expect("a client");
        neighbours.adopt("a/b", &here).await;
        assert!(!here.knows("a/b"), "nobody stands in front");
        let routing = json!({ "stable": "127.0.0.1:1", "canary": "127.0.0.1:2", "weight": 0, "salt": "", "window": "",
            "sessionHeader": "X-S", "sessionCookie": "s" });
        std::fs::write(&file, routing.to_string()).expect("a file");
        neighbours.adopt("new", &here).await;
        assert!(!here.knows("new"));
        neighbours.adopt("a/b", &here).await;
        assert_eq!((here.history("a/b"), there.knows("a/b")), (vec![json!("hello")], false));
    }
}
