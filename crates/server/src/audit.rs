//! A line for every change: who, what, from where, and how it ended. Never what was in it.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;

use crate::caller::Caller;

/// Writes the line, after the change, to the `audit` target of the log.
pub async fn record(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let who = request.extensions().get::<Caller>().map(|caller| caller.user.name.clone()).unwrap_or_default();
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.to_string()).unwrap_or_default();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    tracing::info!(target: "audit", who, from, %method, path, status = response.status().as_u16(), "change");
    response
}
