//! The way of a request: parse, authorize, find the row, run the verb.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, Method};
use machinery::status::Status;
use parking_lot::Mutex;

use crate::attributes::Attributes;
use crate::call::Call;
use crate::decode;
use crate::kinds::Kind;
use crate::metrics::Metrics;
use crate::negotiate::Accept;
use crate::object::Object;
use crate::request::{RequestInfo, Target, Verb, unknown_path};
use crate::respond;
use crate::reviews::Asked;
use crate::server::ApiServer;
use crate::user::User;
use crate::{discovery, health, openapi, options, subresources, verbs};

/// How long a request waits for others to finish.
const QUEUE: Duration = Duration::from_secs(1);

/// Answers one request.
pub async fn serve(server: ApiServer, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let begun = std::time::Instant::now();
    let (label, mut response) = match RequestInfo::parse(&parts.method, &parts.uri) {
        Ok(info) => {
            let known = info.target.as_ref().is_some_and(|target| server.kinds().table().serves(target));
            let label = Metrics::label(&parts.method, info.target.as_ref(), known);
            let result = handle(&server, info, &parts, body).await;
            (label, result.unwrap_or_else(|status| respond::refuse(&status)))
        }
        Err(status) => (Metrics::label(&parts.method, None, false), respond::refuse(&status)),
    };
    server.metrics().observe(&label, response.status(), begun.elapsed());
    respond::stamp(response.headers_mut());
    if parts.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn handle(server: &ApiServer, info: RequestInfo, parts: &Parts, body: Body) -> Result<Response, Status> {
    let user = parts.extensions.get::<Arc<User>>().cloned().unwrap_or_else(|| Arc::new(User::anonymous()));
    authorize(server, &user, &info, &parts.method)?;
    match info.target.clone() {
        Some(target) => resource(server, user, target, info, parts, body).await,
        None => path(server, &info, &parts.method, &parts.headers),
    }
}

fn authorize(server: &ApiServer, user: &User, info: &RequestInfo, method: &Method) -> Result<(), Status> {
    let verb = method.as_str().to_ascii_lowercase();
    let attributes = match &info.target {
        Some(target) => Attributes {
            user,
            verb: target.verb.as_str(),
            group: &target.group,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: &target.name,
            path: &info.path,
        },
        None => Attributes::path(user, &verb, &info.path),
    };
    server.access().authorize(&attributes)
}

/// Paths that are no resource.
fn path(server: &ApiServer, info: &RequestInfo, method: &Method, headers: &HeaderMap) -> Result<Response, Status> {
    let segments: Vec<&str> = info.segments.iter().map(String::as_str).collect();
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(not_allowed());
    }
    match segments.as_slice() {
        [] => Ok(discovery::paths(server)),
        ["api" | "apis", ..] => discovery::answer(server, &segments, headers),
        ["openapi", rest @ ..] => openapi::answer(server, rest, &info.query, headers),
        ["version"] => Ok(health::version(info.query.pretty)),
        [check @ ("healthz" | "livez" | "readyz"), rest @ ..] => health::answer(server, check, rest, &info.query),
        ["metrics"] => Ok(server.metrics().answer(server)),
        _ => Err(unknown_path()),
    }
}

async fn resource(
    server: &ApiServer,
    user: Arc<User>,
    target: Target,
    info: RequestInfo,
    parts: &Parts,
    body: Body,
) -> Result<Response, Status> {
    let kind = row(server, &target).ok_or_else(unknown_path)?;
    check_scope(&kind, &target)?;
    let verbs = match target.subresource.as_str() {
        "" => &kind.verbs,
        name => &kind.subresource(name).ok_or_else(unknown_path)?.verbs,
    };
    check_verb(&target, verbs)?;
    let accept = Accept::read(&parts.headers, &info.query)?;
    let mut call = Call {
        server: server.clone(),
        kind,
        target,
        query: info.query,
        headers: parts.headers.clone(),
        accept,
        user,
        warnings: Mutex::default(),
    };
    if let Some(deprecation) = &call.kind.deprecation {
        call.warn(deprecation.clone());
    }
    if call.target.verb == Verb::Watch {
        return verbs::watch::watch(call);
    }
    if subresources::is_stream(&call) {
        return subresources::stream(call, parts).await;
    }
    // A burst waits its turn; only a server that stays full turns clients away.
    let permit = tokio::time::timeout(QUEUE, server.in_flight().acquire()).await;
    let _permit = permit.map_err(|_| busy())?.map_err(Status::internal)?;
    options::check(&call)?;
    let body = decode::read(body, server.patience()).await?;
    let mut response = run(&mut call, &body).await?;
    respond::warn(response.headers_mut(), &call.warnings.lock());
    Ok(response)
}

fn row(server: &ApiServer, target: &Target) -> Option<Arc<Kind>> {
    let find = || server.kinds().table().of(target).cloned();
    find().or_else(|| crate::crd::catch_up(server, &target.group, &target.resource).then(find).flatten())
}

async fn run(call: &mut Call, body: &bytes::Bytes) -> Result<Response, Status> {
    if !call.target.subresource.is_empty() && !matches!(call.target.subresource.as_str(), "status") {
        return subresources::run(call, body).await;
    }
    if call.kind.storage.is_none() {
        return review(call, body);
    }
    match call.target.verb {
        Verb::Get => verbs::get::get(call),
        Verb::List => verbs::list::list(call),
        Verb::Create => verbs::create::create(call, body).await,
        Verb::Update => verbs::update::update(call, body).await,
        Verb::Patch => verbs::patch::patch(call, body).await,
        Verb::Delete => verbs::delete::delete(call, body).await,
        Verb::DeleteCollection => verbs::delete::delete_collection(call, body).await,
        Verb::Watch => Err(Status::internal("a watch is no single answer")),
    }
}

/// POST of a question: the answer is the same object, its status filled in.
fn review(call: &Call, body: &bytes::Bytes) -> Result<Response, Status> {
    let question = crate::write::admit(call, decode::object(&call.headers, body)?)?;
    let asked = Asked { kind: &call.kind.kind, namespace: call.namespace(), user: &call.user };
    let answer = call.server.access().review(asked, question, jiff::Timestamp::now())?;
    Ok(verbs::get::answer(call, http::StatusCode::CREATED, Object::Value(answer)))
}

/// Cluster-wide kinds have no namespace in their path, and objects of the others need one.
fn check_scope(kind: &Kind, target: &Target) -> Result<(), Status> {
    let namespaced = !target.namespace.is_empty();
    let is_namespace = kind.group.is_empty() && kind.plural == "namespaces";
    match (kind.namespaced, namespaced) {
        (false, true) if !is_namespace => Err(unknown_path()),
        (true, false) if !target.name.is_empty() => Err(unknown_path()),
        // Across namespaces one can only read.
        (true, false) if matches!(target.verb, Verb::Create | Verb::DeleteCollection) => Err(not_allowed()),
        _ => Ok(()),
    }
}

fn check_verb(target: &Target, verbs: &[Verb]) -> Result<(), Status> {
    let named = !target.name.is_empty();
    let fits = match target.verb {
        Verb::Create => !named || !target.subresource.is_empty(),
        Verb::Update | Verb::Patch => named,
        _ => true,
    };
    if fits && verbs.contains(&target.verb) {
        return Ok(());
    }
    Err(not_allowed())
}

fn not_allowed() -> Status {
    Status::method_not_allowed("the server does not allow this method on the requested resource")
}

fn busy() -> Status {
    let mut status = Status::new(
        429,
        "TooManyRequests",
        "The apiserver has received too many requests and has asked us to try again later",
    );
    status.details.retry_after_seconds = Some(1);
    status
}
