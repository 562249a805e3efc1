//! The container that thinks.

use std::sync::Arc;
use std::time::Duration;

use api::omnia::pack::Pack;
use api::omnia::tools::ToolsFile;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::adopt::{Conversation, Neighbours};
use crate::chat::{Request, stream};
use crate::converse::converse;
use crate::files::{self, Watched};
use crate::metrics::Metrics;
use crate::provider::Provider;
use crate::session::Sessions;
use crate::{Error, Settings};

/// Events that wait for a slow client.
const WAITING: usize = 64;

/// Everything that an answer is made from.
pub(crate) struct Agent {
    pub(crate) settings: Settings,
    pub(crate) pack: Watched<Pack>,
    tools: Option<Watched<ToolsFile>>,
    pub(crate) prompt: Option<String>,
    pub(crate) provider: Provider,
    pub(crate) sessions: Sessions,
    neighbours: Neighbours,
    pub(crate) client: tools::Client,
    pub(crate) metrics: Metrics,
}

impl Agent {
    fn new(settings: Settings) -> Result<Self, Error> {
        let sessions = Sessions::new(settings.duration("OMNIA_SESSION_TTL", Duration::from_hours(24))?);
        if let Some(other) = settings.get("OMNIA_SESSION_TYPE").filter(|type_| *type_ != "memory") {
            let problem = format!("{other:?} is not kept by this runtime: it has memory only");
            return Err(Error::Setting { variable: "OMNIA_SESSION_TYPE".into(), problem });
        }
        Ok(Self {
            pack: files::pack(&settings.path("OMNIA_PROMPTPACK_PATH")?),
            tools: settings.get("OMNIA_TOOLS_CONFIG_PATH").map(|path| files::tools(path.as_ref())),
            prompt: settings.get("OMNIA_PROMPT_NAME").map(ToOwned::to_owned),
            provider: Provider::new(&settings)?,
            sessions,
            neighbours: Neighbours::new(settings.get("OMNIA_ROUTING_PATH"), settings.port("OMNIA_GRPC_PORT", 9000)?)?,
            client: tools::Client::new().map_err(|error| Error::Client(error.to_string()))?,
            metrics: Metrics::default(),
            settings,
        })
    }

    /// The tools as they are now.
    pub(crate) fn tools(&self) -> Result<Arc<ToolsFile>, String> {
        self.tools.as_ref().map_or_else(|| Ok(Arc::default()), Watched::now)
    }

    /// Whether a request could be answered.
    fn check(&self) -> Result<(), String> {
        self.pack.now()?.entry(self.prompt.as_deref())?;
        self.tools().map(drop)
    }
}

/// Serves until told to stop: chat on `OMNIA_GRPC_PORT`, health and metrics on `OMNIA_HEALTH_PORT`.
pub async fn serve(settings: Settings, stop: CancellationToken) -> Result<(), Error> {
    let ports = (settings.port("OMNIA_GRPC_PORT", 9000)?, settings.port("OMNIA_HEALTH_PORT", 9001)?);
    let agent = Arc::new(Agent::new(settings)?);
    let chat = Router::new().route("/v1/chat", post(chat)).route("/v1/sessions/{id}", delete(give_up));
    let chat = chat.with_state(agent.clone());
    let health = Router::new().route("/healthz", get(health)).route("/pack", get(pack));
    let health = health.with_state(agent.clone()).merge(agent.metrics.router());
    both((ports.0, chat), (ports.1, health), stop).await
}

async fn chat(State(agent): State<Arc<Agent>>, Json(request): Json<Request>) -> Response {
    if let Some(id) = &request.session_id {
        agent.neighbours.adopt(id, &agent.sessions).await;
    }
    let (sender, mut receiver) = tokio::sync::mpsc::channel(WAITING);
    tokio::spawn(async move { converse(&agent, request, sender).await });
    stream(futures::stream::poll_fn(move |context| receiver.poll_recv(context))).into_response()
}

/// Gives a conversation to the runtime that it moved to.
async fn give_up(State(agent): State<Arc<Agent>>, Path(id): Path<String>) -> Response {
    match agent.sessions.give_up(&id) {
        Some(messages) => Json(Conversation { messages }).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Which content the next request would meet: a controller asks before it sends sessions here.
async fn pack(State(agent): State<Arc<Agent>>) -> Response {
    match agent.pack.now() {
        Ok(pack) => Json(serde_json::json!({ "version": pack.version, "digest": agent.pack.digest() })).into_response(),
        Err(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem).into_response(),
    }
}

async fn health(State(agent): State<Arc<Agent>>) -> Response {
    match agent.check() {
        Ok(()) => format!("ok, {} sessions\n", agent.sessions.count()).into_response(),
        Err(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem).into_response(),
    }
}

/// Serves two routers until told to stop.
pub(crate) async fn both(first: (u16, Router), second: (u16, Router), stop: CancellationToken) -> Result<(), Error> {
    let listen = |port: u16| async move {
        TcpListener::bind(("0.0.0.0", port)).await.map_err(|source| Error::Listen { port, source })
    };
    let (one, two) = (listen(first.0).await?, listen(second.0).await?);
    let failed = |port: u16| move |source| Error::Listen { port, source };
    let (a, b) = (stop.clone(), stop);
    let one = axum::serve(one, first.1).with_graceful_shutdown(async move { a.cancelled().await });
    let two = axum::serve(two, second.1).with_graceful_shutdown(async move { b.cancelled().await });
    let (one, two) = tokio::join!(one, two);
    one.map_err(failed(first.0)).and(two.map_err(failed(second.0)))
}
