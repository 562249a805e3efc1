//! The container that clients talk to: HTTP with one answer, HTTP with a stream, or a WebSocket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::omnia::routing::{ROUTED_HEADER, Routing, SESSION_HEADER};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{self, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::chat::{Event, Request, Usage, data_lines, stream};
use crate::metrics::Metrics;
use crate::runtime::both;
use crate::{Error, Settings};

/// Who answers.
enum Handler {
    /// Nobody: what is said comes back.
    Echo,
    /// A story, word by word.
    Demo,
    /// The runtime, in the container beside this one.
    Runtime { http: reqwest::Client, address: String, health: String },
}

struct Facade {
    handler: Handler,
    metrics: Metrics,
    /// What a router is told; there only while one stands in front.
    routing: Option<PathBuf>,
}

/// Serves until told to stop: clients on `OMNIA_FACADE_PORT`, health and metrics on `OMNIA_HEALTH_PORT`.
pub async fn serve(settings: Settings, stop: CancellationToken) -> Result<(), Error> {
    let ports = (settings.port("OMNIA_FACADE_PORT", 8080)?, settings.port("OMNIA_HEALTH_PORT", 8081)?);
    let routing = settings.get("OMNIA_ROUTING_PATH").map(PathBuf::from);
    let facade = Arc::new(Facade { handler: handler(&settings)?, metrics: Metrics::default(), routing });
    let clients = Router::new().route("/v1/chat", post(chat)).route("/ws", get(socket)).with_state(facade.clone());
    let clients = clients.layer(middleware::from_fn_with_state(facade.clone(), hand_over));
    let health = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(facade.clone())
        .merge(facade.metrics.router());
    both((ports.0, clients), (ports.1, health), stop).await
}

fn handler(settings: &Settings) -> Result<Handler, Error> {
    let invalid = |variable: &str, problem: String| Error::Setting { variable: variable.into(), problem };
    if let Some(other) = settings.get("OMNIA_FACADE_TYPE").filter(|type_| *type_ != "websocket") {
        return Err(invalid("OMNIA_FACADE_TYPE", format!("{other:?} is not spoken here: websocket is")));
    }
    match settings.get("OMNIA_HANDLER_MODE").unwrap_or("runtime") {
        "echo" => Ok(Handler::Echo),
        "demo" => Ok(Handler::Demo),
        "runtime" => {
            let address = settings.require("OMNIA_RUNTIME_ADDRESS")?.to_owned();
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            let health = format!("{host}:{}", settings.port("OMNIA_RUNTIME_HEALTH_PORT", 9001)?);
            let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(5)).no_proxy().build();
            Ok(Handler::Runtime { http: http.map_err(|error| Error::Client(error.to_string()))?, address, health })
        }
        other => Err(invalid("OMNIA_HANDLER_MODE", format!("{other:?} is none of echo, demo and runtime"))),
    }
}

async fn ready(State(facade): State<Arc<Facade>>) -> Response {
    let Handler::Runtime { http, health, .. } = &facade.handler else { return "ok".into_response() };
    let asked = http.get(format!("http://{health}/healthz")).timeout(Duration::from_secs(2)).send().await;
    match asked {
        Ok(answer) if answer.status().is_success() => "ok".into_response(),
        Ok(answer) => {
            let problem = answer.text().await.unwrap_or_default();
            (StatusCode::SERVICE_UNAVAILABLE, format!("the runtime is not ready: {problem}")).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the runtime does not answer").into_response(),
    }
}

/// A connection from before the router stood in front goes past it: its client is told to connect anew, so that the next
/// request is sent where its session belongs.
async fn hand_over(State(facade): State<Arc<Facade>>, request: extract::Request, next: Next) -> Response {
    let direct = !request.headers().contains_key(ROUTED_HEADER);
    let mut response = next.run(request).await;
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if direct && !switched && facade.is_routed() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The session that a header names, as the router does for those who named it elsewhere or nowhere.
fn session_of(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION_HEADER).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
}

/// Streamed to those who accept a stream, in one piece to the others.
async fn chat(State(facade): State<Arc<Facade>>, headers: HeaderMap, Json(request): Json<Request>) -> Response {
    let request = Request { session_id: request.session_id.clone().or_else(|| session_of(&headers)), ..request };
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let events = facade.answer(request);
    if accepts.contains("text/event-stream") {
        return stream(events).into_response();
    }
    let (mut session, mut tools) = (None, Vec::new());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Event::Session { session_id } => session = Some(session_id),
            Event::Chunk { .. } | Event::ToolCall { .. } => {}
            Event::ToolResult { name, ok, content } => {
                tools.push(json!({ "name": name, "ok": ok, "content": content }));
            }
            Event::Done { content, pack_version, usage } => {
                let answer = json!({ "content": content, "sessionId": session, "packVersion": pack_version, "tools": tools, "usage": usage });
                return Json(answer).into_response();
            }
            Event::Error { message } => return failed(&message),
        }
    }
    failed("the runtime ended without an answer")
}

fn failed(message: &str) -> Response {
    (StatusCode::BAD_GATEWAY, Json(json!({ "error": message }))).into_response()
}

async fn socket(State(facade): State<Arc<Facade>>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    let session = session_of(&headers);
    upgrade.on_upgrade(move |socket| async move { talk(&facade, socket, session).await })
}

/// One conversation: each message of the client is answered by events, the last of which says `done` or `error`.
async fn talk(facade: &Facade, mut socket: WebSocket, mut session: Option<String>) {
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else { continue };
        let request = serde_json::from_str::<Request>(&text);
        let mut events: BoxStream<'_, Event> = match request {
            Ok(request) => {
                let session_id = request.session_id.clone().or_else(|| session.clone());
                facade.answer(Request { session_id, ..request }).boxed()
            }
            Err(error) => futures::stream::iter([Event::Error { message: format!("not a request: {error}") }]).boxed(),
        };
        while let Some(event) = events.next().await {
            if let Event::Session { session_id } = &event {
                session = Some(session_id.clone());
            }
            let text = serde_json::to_string(&event).expect("an event is plain data");
            if socket.send(Message::Text(text.into())).await.is_err() {
                return;
            }
        }
    }
}

impl Facade {
    /// Whether a router stands in front and stays there.
    fn is_routed(&self) -> bool {
        let text = self.routing.as_ref().and_then(|path| std::fs::read(path).ok());
        let routing = text.and_then(|text| serde_json::from_slice::<Routing>(&text).ok());
        routing.is_some_and(|routing| !routing.retiring)
    }

    /// The answer, event by event.
    fn answer(&self, request: Request) -> impl Stream<Item = Event> + Send + use<> {
        let metrics = self.metrics.clone();
        let events = match &self.handler {
            Handler::Echo => said(&request, &request.message),
            Handler::Demo => said(&request, "This is a demonstration: no model was asked, and no tool was called."),
            Handler::Runtime { http, address, .. } => ask(http.clone(), format!("http://{address}/v1/chat"), request),
        };
        events.inspect(move |event| match event {
            Event::Done { .. } => metrics.answered("ok"),
            Event::Error { .. } => metrics.answered("error"),
            _ => {}
        })
    }
}

/// Words that need no runtime.
fn said(request: &Request, text: &str) -> BoxStream<'static, Event> {
    let id = request.session_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let mut events = vec![Event::Session { session_id: id }];
    events.extend(text.split_inclusive(' ').map(|word| Event::Chunk { content: word.to_owned() }));
    events.push(Event::Done { content: text.to_owned(), pack_version: None, usage: Usage::default() });
    futures::stream::iter(events).boxed()
}

/// What the runtime says.
fn ask(http: reqwest::Client, url: String, request: Request) -> BoxStream<'static, Event> {
    let asked = async move {
        let answer = http.post(url).json(&request).send().await;
        let problem = |message: String| futures::stream::iter([Event::Error { message }]).boxed();
        match answer {
            Ok(answer) if answer.status().is_success() => data_lines(answer.bytes_stream())
                .map(|line| {
                    let event = line.and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()));
                    event
                        .unwrap_or_else(|message| Event::Error { message: format!("the runtime broke off: {message}") })
                })
                .boxed(),
            Ok(answer) => problem(format!("the runtime answered {}", answer.status())),
            Err(error) => problem(format!("the runtime does not answer: {}", error.without_url())),
        }
    };
    futures::stream::once(asked).flatten().boxed()
}
