//! Who is calling: a bearer token that the Kubernetes API vouches for, or the cookie of a browser that came through a
//! login link.

pub mod session;
mod tokens;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::caller::{Caller, User};
use crate::error::{Error, Result};

pub use tokens::Tokens;

/// A browser sends this header only from our own pages: other origins would have to ask first, and are refused.
pub const CSRF_HEADER: &str = "x-orrery-request";

/// Puts a [`Caller`] on the request or refuses it.
pub async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match identify(&app, request.headers(), request.method()).await {
        Ok(user) => match Caller::new(&app.client, user) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Err(error) => error.into_response(),
        },
        Err(error) => error.into_response(),
    }
}

async fn identify(app: &App, headers: &HeaderMap, method: &Method) -> Result<User> {
    if let Some(token) = bearer(headers) {
        return app.tokens.review(&app.client, token).await;
    }
    if let Some(user) = session::cookie(headers).and_then(|cookie| app.sessions.user(cookie)) {
        if !method.is_safe() && !headers.contains_key(CSRF_HEADER) {
            return Err(Error::forbidden(format!("A change by cookie needs the header {CSRF_HEADER}")));
        }
        return Ok(user);
    }
    app.anonymous.clone().ok_or_else(|| {
        Error::unauthorized("Sign in with the link that `orrery up` prints, or send a token: kubectl create token NAME")
    })
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
