//! A span for every request, for whoever collects traces.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::app::App;
use crate::caller::Caller;

/// Goes on with the trace that a caller began: a span, and the caller's `traceparent`.
pub type Adopt = fn(&tracing::Span, &str);

/// Times a request from its route on. Streams end, for this, when they begin.
pub async fn request(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let span = tracing::info_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        http.request.method = method.as_str(),
        http.route = route,
        http.response.status_code = Empty,
        enduser.id = Empty,
    );
    if let Some(parent) = request.headers().get("traceparent").and_then(|parent| parent.to_str().ok()) {
        (app.adopt)(&span, parent);
    }
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

/// Says in the span who asked.
pub fn caller(caller: &Caller) {
    tracing::Span::current().record("enduser.id", caller.user.name.as_str());
}
