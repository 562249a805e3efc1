//! Wiring: routes, layers, and the state they share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

use crate::auth::{self, Tokens, session};
use crate::caller::{Caller, User};
use crate::error::{Error, Result};
use crate::kinds::{CONFIG, CONFIG_OBJECT, KINDS, Kind};
use crate::query::ListQuery;
use crate::resources::{self, ListParameters, ObjectPath, ObjectQuery};
use crate::{Sessions, actions, assets, audit, events, logs, openapi, stream};

const MAX_BODY: usize = 3 * 1024 * 1024;
/// Streams count too; past this many at once, requests wait.
const MAX_AT_ONCE: usize = 2000;
/// The UI loads only what this server serves, and nobody may frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// What a server needs to know.
pub struct Options {
    /// A client that may review tokens, read namespaces and impersonate.
    pub client: Client,
    /// Browser sessions, shared with whoever prints login links.
    pub sessions: Arc<Sessions>,
    /// Who a caller without credentials is; nobody unless chosen.
    pub anonymous: Option<User>,
}

/// The state of every handler.
#[derive(Clone)]
pub struct App {
    pub client: Client,
    pub sessions: Arc<Sessions>,
    pub tokens: Arc<Tokens>,
    pub anonymous: Option<User>,
    started: Instant,
}

/// The REST API and the UI.
pub struct Server {
    router: Router,
}

impl Server {
    /// Builds the routes.
    pub fn new(options: Options) -> Self {
        let app = App {
            client: options.client,
            sessions: options.sessions,
            tokens: Arc::default(),
            anonymous: options.anonymous,
            started: Instant::now(),
        };
        Self { router: router(app) }
    }

    /// The routes, for a test or another server.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Serves until told to stop. Streams end when the listener does, so a drain does not wait for them.
    pub async fn run(self, listener: TcpListener, shutdown: CancellationToken) -> std::io::Result<()> {
        let service = self.router.into_make_service_with_connect_info::<SocketAddr>();
        let serving = axum::serve(listener, service).with_graceful_shutdown(shutdown.clone().cancelled_owned());
        tokio::select! {
            result = serving => result,
            () = async { shutdown.cancelled().await; tokio::time::sleep(std::time::Duration::from_secs(1)).await } => Ok(()),
        }
    }
}

fn router(app: App) -> Router {
    let mut v1 = Router::new()
        .route("/info", get(info))
        .route("/whoami", get(whoami))
        .route("/namespaces", get(resources::namespaces))
        .route("/stream", get(stream::follow))
        .route("/config", get(get_config).put(put_config))
        .route("/openapi.json", get(async || Json(openapi::document())))
        .route("/namespaces/{namespace}/tasks/{name}/stop", post(actions::stop_task))
        .route("/namespaces/{namespace}/tasks/{name}/logs", get(logs::follow))
        .route("/namespaces/{namespace}/agents/{name}/suspend", post(actions::suspend_agent))
        .route("/namespaces/{namespace}/agents/{name}/resume", post(actions::resume_agent))
        .route("/namespaces/{namespace}/crontasks/{name}/suspend", post(actions::suspend_cron_task))
        .route("/namespaces/{namespace}/crontasks/{name}/resume", post(actions::resume_cron_task))
        .route("/namespaces/{namespace}/crontasks/{name}/trigger", post(actions::trigger_cron_task))
        .route("/namespaces/{namespace}/crontasks/{name}/history", get(actions::cron_task_history));
    for kind in KINDS {
        v1 = v1.merge(routes_of(kind));
    }
    let v1 = v1
        .fallback(async || Error::not_found("There is no such route. GET /api/v1/openapi.json lists them"))
        .layer(middleware::from_fn(audit::record))
        .layer(middleware::from_fn_with_state(app.clone(), auth::authenticate));
    Router::new()
        .nest("/api/v1", v1)
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/login", get(session::login).post(session::login_with_token))
        .route("/logout", post(session::logout))
        .fallback(assets::serve)
        .layer(middleware::from_fn(harden))
        .layer(CompressionLayer::new())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(CatchPanicLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(MAX_AT_ONCE))
        .with_state(app)
}

/// The generic routes of a kind.
fn routes_of(kind: &'static Kind) -> Router<App> {
    type Who = Extension<Caller>;
    let list_all = async move |State(app): State<App>, Extension(caller): Who, Query(query): ListParameters| {
        resources::list(kind, &app, &caller, None, &query).await
    };
    let list = async move |State(app): State<App>,
                           Extension(caller): Who,
                           Path(namespace): Path<String>,
                           Query(query): Query<ListQuery>| {
        resources::list(kind, &app, &caller, Some(&namespace), &query).await
    };
    let create = async move |Extension(caller): Who,
                             Path(namespace): Path<String>,
                             Query(query): Query<ObjectQuery>,
                             headers: HeaderMap,
                             body: Bytes| {
        resources::create(kind, &caller, &namespace, &query, &headers, &body).await
    };
    let read = async move |Extension(caller): Who,
                           Path((namespace, name)): ObjectPath,
                           Query(query): Query<ObjectQuery>,
                           headers: HeaderMap| {
        resources::get(kind, &caller, Some(&namespace), &name, &query, &headers).await
    };
    let replace = async move |Extension(caller): Who,
                              Path((namespace, name)): ObjectPath,
                              Query(query): Query<ObjectQuery>,
                              headers: HeaderMap,
                              body: Bytes| {
        resources::replace(kind, &caller, Some(&namespace), &name, &query, &headers, &body).await
    };
    let delete = async move |Extension(caller): Who,
                             Path((namespace, name)): ObjectPath,
                             Query(query): Query<ObjectQuery>,
                             headers: HeaderMap| {
        resources::delete(kind, &caller, &namespace, &name, &query, &headers).await
    };
    let happenings = async move |Extension(caller): Who, Path((namespace, name)): ObjectPath| {
        events::list(kind, &caller, &namespace, &name).await
    };
    let collection = format!("/namespaces/{{namespace}}/{}", kind.plural);
    Router::new()
        .route(&format!("/{}", kind.plural), get(list_all))
        .route(&collection, get(list).post(create))
        .route(&format!("{collection}/{{name}}"), get(read).put(replace).delete(delete))
        .route(&format!("{collection}/{{name}}/events"), get(happenings))
}

async fn info() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

async fn whoami(Extension(caller): Extension<Caller>) -> Json<User> {
    Json(caller.user)
}

async fn get_config(
    Extension(caller): Extension<Caller>,
    Query(query): Query<ObjectQuery>,
    headers: HeaderMap,
) -> Result<Response> {
    resources::get_singleton(&CONFIG, &caller, CONFIG_OBJECT, &query, &headers).await
}

async fn put_config(
    Extension(caller): Extension<Caller>,
    Query(query): Query<ObjectQuery>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    resources::put_singleton(&CONFIG, &caller, CONFIG_OBJECT, &query, &headers, &body).await
}

async fn health(State(app): State<App>) -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION"), "uptime": app.started.elapsed().as_secs()}))
}

/// Ready when the Kubernetes API answers.
async fn ready(State(app): State<App>) -> Response {
    match app.client.apiserver_version().await {
        Ok(_) => Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")})).into_response(),
        Err(error) => Error::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "NotReady",
            format!("The Kubernetes API does not answer: {error}"),
        )
        .into_response(),
    }
}

async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
