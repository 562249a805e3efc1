//! Who is calling: a bearer token that the Kubernetes API vouches for, or the cookie of a browser that came through a
//! login link.

mod leave;
pub mod session;
mod tokens;

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::caller::{Caller, User};
use crate::error::{Error, Result};
use crate::limit;
use crate::peer::Peer;
use crate::trace;

pub use leave::Leave;
pub use tokens::Tokens;

/// A browser sends this header only from our own pages: other origins would have to ask first, and are refused.
pub const CSRF_HEADER: &str = "x-orrery-request";

/// Puts a [`Caller`] on the request or refuses it.
pub async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    match identify(&app, &peer, request.headers(), request.method()).await {
        Ok((user, leave)) => match Caller::new(&app.client, user) {
            Ok(caller) => {
                trace::caller(&caller);
                request.extensions_mut().insert(caller);
                request.extensions_mut().insert(leave.clone());
                leave.ends(&app, next.run(request).await)
            }
            Err(error) => error.into_response(),
        },
        Err(error) => error.into_response(),
    }
}

async fn identify(app: &App, peer: &Peer, headers: &HeaderMap, method: &Method) -> Result<(User, Leave)> {
    if let Some(token) = bearer(headers) {
        return Ok((review(app, peer, token).await?, Leave::of_token(token)));
    }
    if let Some(cookie) = session::cookie(headers)
        && let Some(session) = app.sessions.find(cookie)
    {
        if let Some(token) = &session.token {
            let reviewed = review(app, peer, token).await;
            if reviewed.as_ref().is_err_and(Error::is_unauthorized) {
                app.sessions.end(cookie);
            }
            reviewed?;
        }
        if !method.is_safe() && !headers.contains_key(CSRF_HEADER) {
            return Err(Error::forbidden(format!("A change by cookie needs the header {CSRF_HEADER}")));
        }
        return Ok((session.user.clone(), Leave::of_session(&session)));
    }
    app.anonymous.clone().map(|user| (user, Leave::default())).ok_or_else(|| {
        Error::unauthorized("Sign in with the link that `orrery up` prints, or send a token: kubectl create token NAME")
    })
}

/// Who the token belongs to. Tokens that are not good are counted by address: whoever guesses is soon not heard, and
/// does not make the Kubernetes API work.
async fn review(app: &App, peer: &Peer, token: &str) -> Result<User> {
    if let Some(user) = app.tokens.remembered(token) {
        return Ok(user);
    }
    let who = peer.key();
    app.attempts.check(&who, Instant::now()).map_err(limit::too_many)?;
    let reviewed = app.tokens.review(&app.client, token).await;
    if reviewed.as_ref().is_err_and(Error::is_unauthorized) {
        // The next one learns that there are none left.
        let _ = app.attempts.take(&who, Instant::now());
    }
    reviewed
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
