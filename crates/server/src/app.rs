//! Wiring: routes, layers, and the state they share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use controllers::logs::Archive;
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

use crate::audit::{self, Audit};
use crate::auth::{self, Tokens, session};
use crate::caller::{Caller, User};
use crate::error::{self, Error, Result};
use crate::extract::{Path, Query};
use crate::kinds::{CONFIG, CONFIG_OBJECT, KINDS, Kind};
use crate::limit::{self, Limits, Rate};
use crate::metrics::{self, Metrics};
use crate::query::ListQuery;
use crate::resources::{self, ObjectPath, ObjectQuery};
use crate::routes::{Answer, Operation, Routes};
use crate::stream::shared::Watches;
use crate::{
    Sessions, actions, assets, chat, events, logs, openapi, packs, peer, policies, registries, search, stream,
    terminal, trace, upcoming,
};

const V1: &str = "/api/v1";
/// How much one caller may ask, unless told: a page that loads asks a dozen things at once.
const RATE: Rate = Rate { per_second: 200, burst: 1000 };
/// Attempts to sign in from one address.
const ATTEMPTS: Rate = Rate { per_second: 2, burst: 60 };
/// How long streams may take to end when the server does.
const DRAIN: Duration = Duration::from_secs(1);
const MAX_BODY: usize = 3 * 1024 * 1024;
/// Streams count too; past this many at once, requests wait.
const MAX_AT_ONCE: usize = 2000;
/// The UI loads only what this server serves, and nobody may frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// What a server needs to know.
pub struct Options {
    /// A client that may review tokens, read namespaces and impersonate.
    pub client: Client,
    /// A kubeconfig of the same, for terminals: a client without a socket cannot hand a connection over.
    pub kubeconfig: Option<PathBuf>,
    /// Browser sessions, shared with whoever prints login links.
    pub sessions: Arc<Sessions>,
    /// Who a caller without credentials is; nobody unless chosen.
    pub anonymous: Option<User>,
    /// Where logs of Pods that are gone were kept.
    pub logs: Option<Archive>,
    /// Whether every request comes through a proxy that says, by `X-Forwarded-For`, whom it heard.
    pub behind_proxy: bool,
    /// Where changes are written down.
    pub audit: Audit,
    /// How much one caller may ask.
    pub rate: Rate,
    /// How streams are kept open.
    pub streams: Streams,
    /// Numbers that others count, to be scraped with ours.
    pub metrics: Registry,
    /// How a request goes on with its caller's trace. This crate does not know who exports spans.
    pub adopt: trace::Adopt,
}

/// How streams are kept open.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// How often a stream on which nothing moves says so: proxies cut silent connections.
    pub keep_alive: Duration,
    /// How long one watch of the Kubernetes API may last; the next goes on where it was.
    pub watch: Duration,
    /// How often a token is reviewed again while it is used: long enough to spare the API a review for every request of
    /// a page, short enough that a token that was taken away ends soon, and with it what was opened by it.
    pub review: Duration,
}

impl Default for Streams {
    fn default() -> Self {
        Self { keep_alive: Duration::from_secs(15), watch: Duration::from_secs(290), review: Duration::from_secs(10) }
    }
}

impl Options {
    /// The defaults, for a client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            kubeconfig: None,
            sessions: Arc::default(),
            anonymous: None,
            logs: None,
            behind_proxy: false,
            audit: Audit::default(),
            rate: RATE,
            streams: Streams::default(),
            metrics: Registry::default(),
            adopt: |_, _| {},
        }
    }
}

/// The state of every handler.
#[derive(Clone)]
pub struct App {
    pub client: Client,
    pub sessions: Arc<Sessions>,
    pub tokens: Arc<Tokens>,
    pub anonymous: Option<User>,
    pub logs: Option<Archive>,
    pub behind_proxy: bool,
    pub audit: Arc<Audit>,
    pub limits: Arc<Limits>,
    pub attempts: Arc<Limits>,
    pub streams: Streams,
    pub watches: Arc<Watches>,
    pub metrics: Arc<Metrics>,
    pub adopt: trace::Adopt,
    kubeconfig: Option<PathBuf>,
    started: Instant,
}

impl App {
    /// A client whose connections can be handed over. The file is read each time: its certificate is renewed.
    pub async fn upgrades(&self) -> Result<Client> {
        let Some(file) = &self.kubeconfig else { return Ok(self.client.clone()) };
        let read = async {
            let config = kube::config::Kubeconfig::read_from(file)?;
            kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await
        };
        let unavailable = |error: String| Error::new(StatusCode::BAD_GATEWAY, "PlaneUnavailable", error);
        let config = read.await.map_err(|error| unavailable(error.to_string()))?;
        Client::try_from(config).map_err(|error| unavailable(error.to_string()))
    }
}

/// The REST API and the UI.
pub struct Server {
    app: App,
    router: Router,
}

impl Server {
    /// Builds the routes.
    pub fn new(options: Options) -> Self {
        let app = App {
            client: options.client,
            sessions: options.sessions,
            tokens: Arc::new(Tokens::new(options.streams.review)),
            anonymous: options.anonymous,
            logs: options.logs,
            behind_proxy: options.behind_proxy,
            audit: Arc::new(options.audit),
            limits: Arc::new(Limits::new(options.rate)),
            attempts: Arc::new(Limits::new(ATTEMPTS)),
            streams: options.streams,
            watches: Arc::default(),
            metrics: Arc::new(Metrics::new(options.metrics)),
            adopt: options.adopt,
            kubeconfig: options.kubeconfig,
            started: Instant::now(),
        };
        Self { router: router(app.clone()), app }
    }

    /// The routes, for a test or another server.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Serves until told to stop. Streams end when the listener does, so a drain does not wait for them.
    pub async fn run(self, listener: TcpListener, shutdown: CancellationToken) -> std::io::Result<()> {
        let service = self.router.into_make_service_with_connect_info::<SocketAddr>();
        let serving = axum::serve(listener, service).with_graceful_shutdown(shutdown.clone().cancelled_owned());
        let counting = self.app.metrics.follow(&self.app.client, shutdown.clone());
        let serving = async {
            tokio::select! {
                result = serving => result,
                () = async { shutdown.cancelled().await; tokio::time::sleep(DRAIN).await } => Ok(()),
            }
        };
        tokio::join!(serving, counting).0
    }
}

/// Everything that is served, in words.
pub fn operations() -> Vec<Operation> {
    let mut operations = protected().operations;
    operations.extend(open().operations);
    operations
}

fn router(app: App) -> Router {
    let protected = protected()
        .router
        .route(
            "/api/{*rest}",
            any(async || Error::not_found("There is no such route. GET /api/v1/openapi.json lists them")),
        )
        .layer(middleware::from_fn_with_state(app.clone(), audit::record))
        .layer(middleware::from_fn_with_state(app.clone(), limit::callers))
        .layer(middleware::from_fn_with_state(app.clone(), auth::authenticate));
    let open = open().router.layer(middleware::from_fn_with_state(app.clone(), audit::record));
    let open = open.layer(middleware::from_fn_with_state(app.clone(), limit::strangers));
    let shaped = protected.merge(open).layer(CatchPanicLayer::new()).layer(middleware::from_fn(error::shape));
    let shaped = shaped.layer(middleware::from_fn_with_state(app.clone(), trace::request));
    shaped
        .route("/health", get(health))
        .route("/ready", get(ready))
        .fallback(assets::serve)
        .layer(middleware::from_fn(harden))
        .layer(CompressionLayer::new())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(GlobalConcurrencyLimitLayer::new(MAX_AT_ONCE))
        .layer(middleware::from_fn_with_state(app.clone(), peer::note))
        .with_state(app)
}

/// What anybody may call: the ways in.
fn open() -> Routes {
    Routes::default()
        .serve(
            Operation::get("/login", "Sign in with a link that works once")
                .query::<session::Invitation>()
                .answers(Answer::Nothing)
                .open(),
            session::login,
        )
        .serve(
            Operation::post("/login", "Begin a session with a bearer token").answers(Answer::Nothing),
            session::login_with_token,
        )
        .serve(Operation::post("/logout", "End the session").answers(Answer::Nothing).open(), session::logout)
}

fn protected() -> Routes {
    let mut routes = Routes::default()
        .serve(Operation::get("/metrics", "Numbers for Prometheus").answers(Answer::Text), metrics::scrape)
        .serve(Operation::get(format!("{V1}/info"), "The version"), info)
        .serve(Operation::get(format!("{V1}/whoami"), "Who you are"), whoami)
        .serve(Operation::get(format!("{V1}/openapi.json"), "This document"), async || Json(openapi::document()))
        .serve(Operation::get(format!("{V1}/namespaces"), "Namespaces that you can see"), resources::namespaces)
        .serve(
            Operation::get(
                format!("{V1}/search"),
                "Find objects of every kind by name, label, description and messages",
            )
            .query::<search::Wanted>(),
            search::search,
        )
        .serve(
            Operation::get(
                format!("{V1}/stream"),
                "Changes of every kind as server-sent events, resumable by Last-Event-ID",
            )
            .query::<stream::Wanted>()
            .answers(Answer::Events),
            stream::follow,
        )
        .serve(
            Operation::get(format!("{V1}/events"), "What happened lately").query::<events::Wanted>(),
            events::everywhere,
        )
        .serve(
            Operation::get(format!("{V1}/namespaces/{{namespace}}/events"), "What happened lately in a namespace")
                .query::<events::Wanted>(),
            events::in_namespace,
        )
        .serve(
            Operation::get(format!("{V1}/upcoming"), "When schedules run next").query::<upcoming::Ahead>(),
            upcoming::upcoming,
        )
        .serve(
            Operation::get(format!("{V1}/config"), "The cluster's settings")
                .query::<ObjectQuery>()
                .answers(Answer::Either(CONFIG.name)),
            get_config,
        )
        .serve(
            Operation::put(format!("{V1}/config"), "Replace the cluster's settings")
                .query::<ObjectQuery>()
                .body("KubeOpenCodeConfig")
                .answers(Answer::Either(CONFIG.name)),
            put_config,
        );
    for kind in KINDS {
        routes = routes_of(routes, kind);
    }
    omnia_actions(kubeopencode_actions(routes))
}

/// Where a verb is that only some kinds have.
fn at(kind: &str, verb: &str) -> String {
    format!("{V1}/namespaces/{{namespace}}/{kind}/{{name}}/{verb}")
}

fn kubeopencode_actions(routes: Routes) -> Routes {
    routes
        .serve(
            Operation::post(at("tasks", "stop"), "Stop a Task").tag("Task").answers(Answer::View("Task")),
            actions::stop_task,
        )
        .serve(
            Operation::get(at("tasks", "logs"), "A Task's log as server-sent events, resumable by Last-Event-ID")
                .tag("Task")
                .query::<logs::LogQuery>()
                .answers(Answer::Events),
            logs::follow,
        )
        .serve(
            Operation::post(at("agents", "suspend"), "Suspend an Agent")
                .tag("Agent")
                .answers(Answer::View("Agent"))
                .query::<actions::Force>(),
            actions::suspend_agent,
        )
        .serve(
            Operation::post(at("agents", "resume"), "Resume an Agent").tag("Agent").answers(Answer::View("Agent")),
            actions::resume_agent,
        )
        .serve(
            Operation::get(at("agents", "terminal"), "A terminal in the Agent's Pod")
                .tag("Agent")
                .query::<terminal::Wanted>()
                .answers(Answer::Socket),
            terminal::open,
        )
        .serve(
            Operation::post(at("crontasks", "suspend"), "Suspend a CronTask")
                .tag("CronTask")
                .answers(Answer::View("CronTask")),
            actions::suspend_cron_task,
        )
        .serve(
            Operation::post(at("crontasks", "resume"), "Resume a CronTask")
                .tag("CronTask")
                .answers(Answer::View("CronTask")),
            actions::resume_cron_task,
        )
        .serve(
            Operation::post(at("crontasks", "trigger"), "Run a CronTask now")
                .tag("CronTask")
                .answers(Answer::View("CronTask")),
            actions::trigger_cron_task,
        )
        .serve(
            Operation::get(at("crontasks", "history"), "The Tasks a CronTask created")
                .tag("CronTask")
                .query::<ListQuery>()
                .answers(Answer::Page("tasks", "Task")),
            actions::cron_task_history,
        )
}

fn omnia_actions(routes: Routes) -> Routes {
    routes
        .serve(
            Operation::get(at("promptpacks", "content"), "The text of a version of a pack")
                .tag("PromptPack")
                .query::<packs::Wanted>(),
            packs::content,
        )
        .serve(
            Operation::post(at("promptpacks", "promote"), "Make a pack's canary the active version")
                .tag("PromptPack")
                .answers(Answer::View("PromptPack")),
            actions::promote_pack,
        )
        .serve(
            Operation::post(at("promptpacks", "abort"), "End a pack's canary")
                .tag("PromptPack")
                .answers(Answer::View("PromptPack")),
            actions::abort_pack,
        )
        .serve(
            Operation::post(at("promptpacks", "retry"), "Try a version again whose canary was aborted")
                .tag("PromptPack")
                .answers(Answer::View("PromptPack")),
            actions::retry_pack,
        )
        .serve(
            Operation::post(at("promptpacks", "weight"), "Give a pack's canary another share of the sessions")
                .tag("PromptPack")
                .query::<actions::Share>()
                .answers(Answer::View("PromptPack")),
            actions::weigh_pack,
        )
        .serve(
            Operation::post(
                at("agentruntimes", "chat"),
                "Say something to a runtime; it answers by server-sent events",
            )
            .tag("AgentRuntime")
            .body("Chat")
            .answers(Answer::Events),
            chat::chat,
        )
        .serve(
            Operation::get(at("toolregistries", "details"), "The description and the schemas of a tool")
                .tag("ToolRegistry")
                .query::<registries::Wanted>(),
            registries::details,
        )
        .serve(
            Operation::get(at("agentpolicies", "effect"), "Which tools a policy leaves to the agents it is for")
                .tag("AgentPolicy"),
            policies::effect,
        )
}

/// The generic routes of a kind.
fn routes_of(routes: Routes, kind: &'static Kind) -> Routes {
    type Who = Extension<Caller>;
    let list_all =
        async move |State(app): State<App>,
                    Extension(caller): Who,
                    Query(query): Query<ListQuery>,
                    headers: HeaderMap| { resources::list(kind, &app, &caller, None, &query, &headers).await };
    let list = async move |State(app): State<App>,
                           Extension(caller): Who,
                           Path(namespace): Path<String>,
                           Query(query): Query<ListQuery>,
                           headers: HeaderMap| {
        resources::list(kind, &app, &caller, Some(&namespace), &query, &headers).await
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
        events::of(kind, &caller, &namespace, &name).await
    };
    let (name, plural) = (kind.name, kind.plural);
    let collection = format!("{V1}/namespaces/{{namespace}}/{plural}");
    let object = format!("{collection}/{{name}}");
    let page =
        |operation: Operation| operation.tag(name).query::<ListQuery>().answers(Answer::Page(kind.list_key, name));
    let one = |operation: Operation| operation.tag(name).query::<ObjectQuery>();
    let routes = routes
        .serve(page(Operation::get(format!("{V1}/{plural}"), format!("List every {name} that you can see"))), list_all)
        .serve(page(Operation::get(&collection, format!("List each {name} of a namespace"))), list)
        .serve(
            one(Operation::get(&object, format!("Get a {name}; with output=yaml, the whole object"))
                .answers(Answer::Either(name))),
            read,
        );
    if kind.kept_in.is_some() {
        return routes;
    }
    routes
        .serve(
            one(Operation::post(&collection, format!("Create a {name}")).body(name).answers(Answer::Either(name))),
            create,
        )
        .serve(
            one(Operation::put(&object, format!("Replace the spec of a {name}"))
                .body(name)
                .answers(Answer::Either(name))),
            replace,
        )
        .serve(one(Operation::delete(&object, format!("Delete a {name} and what belongs to it"))), delete)
        .serve(
            Operation::get(format!("{object}/events"), format!("What happened to a {name} lately")).tag(name),
            happenings,
        )
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
    // A proxy that collects an answer before it passes it on would hold a stream back.
    if headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    }
    response
}
