//! Browser sessions: a link that works once, then a cookie.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::App;
use crate::caller::User;
use crate::error::Error;
use crate::extract::Query;
use crate::peer::Peer;

const COOKIE: &str = "orrery_session";
const LINK_LIVES: Duration = Duration::from_mins(10);
const SESSION_LIVES: Duration = Duration::from_hours(12);
/// For a token that does not say how long it lives.
const UNKNOWN_LIVES: Duration = Duration::from_hours(1);

type Secret = [u8; 32];

/// Links that wait to be used and sessions that were begun with one. Of links and cookies only digests are kept.
#[derive(Default)]
pub struct Sessions {
    links: Mutex<HashMap<Secret, (User, Instant)>>,
    open: Mutex<HashMap<Secret, Session>>,
}

/// An open session.
#[derive(Clone)]
pub struct Session {
    /// Whose it is.
    pub user: User,
    /// The token that it was begun with. It is reviewed as long as the session lasts: who takes it away ends the session.
    pub token: Option<Arc<str>>,
    /// When it ends by itself.
    pub until: Instant,
    /// Cancelled when it ends before that.
    pub ended: CancellationToken,
}

impl Sessions {
    /// A secret that signs `user` in once, within ten minutes.
    pub fn invite(&self, user: User) -> String {
        let secret = random();
        let now = Instant::now();
        let mut links = self.links.lock();
        links.retain(|_, (_, until)| *until > now);
        links.insert(digest(&secret), (user, now + LINK_LIVES));
        secret
    }

    /// Uses an invitation up and begins a session.
    fn accept(&self, invitation: &str) -> Option<String> {
        let (user, until) = self.links.lock().remove(&digest(invitation))?;
        (until > Instant::now()).then(|| self.begin(user, None, SESSION_LIVES))
    }

    fn begin(&self, user: User, token: Option<&str>, lives: Duration) -> String {
        let secret = random();
        let now = Instant::now();
        let mut open = self.open.lock();
        open.retain(|_, session| session.until > now);
        let session =
            Session { user, token: token.map(Arc::from), until: now + lives, ended: CancellationToken::new() };
        open.insert(digest(&secret), session);
        secret
    }

    /// The open session of a cookie.
    pub fn find(&self, secret: &str) -> Option<Session> {
        self.open.lock().get(&digest(secret)).filter(|session| session.until > Instant::now()).cloned()
    }

    /// Ends a session and every stream that was opened in it.
    pub fn end(&self, secret: &str) {
        if let Some(session) = self.open.lock().remove(&digest(secret)) {
            session.ended.cancel();
        }
    }
}

fn digest(secret: &str) -> Secret {
    Sha256::digest(secret.as_bytes()).into()
}

/// Two version 4 uuids: 244 random bits.
fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// The session cookie of a request.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

#[derive(Deserialize, JsonSchema)]
pub struct Invitation {
    /// The secret of the link.
    token: String,
}

/// `GET /login?token=…`: the link that `orrery up` prints.
pub async fn login(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Query(invitation): Query<Invitation>,
) -> Response {
    let Some(secret) = app.sessions.accept(&invitation.token) else {
        return Error::new(
            StatusCode::UNAUTHORIZED,
            "LinkUsed",
            "This link was used already or is older than ten minutes. Start `orrery up` again for another, or sign in with a token: kubectl create token NAME",
        )
        .into_response();
    };
    with_cookie(Redirect::to("/").into_response(), &secret, SESSION_LIVES.as_secs(), &peer)
}

/// `POST /login` with a bearer token: a session for a browser whose user has a token and no link.
pub async fn login_with_token(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let token =
        super::bearer(&headers).ok_or_else(|| Error::unauthorized("Send the token as Authorization: Bearer TOKEN"))?;
    let user = super::review(&app, &peer, token).await?;
    // A session must not outlive the token it was begun with.
    let lives = super::tokens::remaining(token, SystemTime::now()).unwrap_or(UNKNOWN_LIVES).min(SESSION_LIVES);
    let secret = app.sessions.begin(user, Some(token), lives);
    Ok(with_cookie(StatusCode::NO_CONTENT.into_response(), &secret, lives.as_secs(), &peer))
}

/// `POST /logout`: ends the session.
pub async fn logout(State(app): State<App>, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Response {
    if let Some(secret) = cookie(&headers) {
        app.sessions.end(secret);
    }
    with_cookie(StatusCode::NO_CONTENT.into_response(), "", 0, &peer)
}

fn with_cookie(mut response: Response, secret: &str, seconds: u64, peer: &Peer) -> Response {
    let secure = if peer.secure { "; Secure" } else { "" };
    let value = format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    response
        .headers_mut()
        .insert(header::SET_COOKIE, HeaderValue::from_str(&value).expect("hexadecimal digits are a header value"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_works_once() {
        let sessions = Sessions::default();
        let user = User { name: "ada".to_owned(), ..User::default() };
        let invitation = sessions.invite(user.clone());
        let secret = sessions.accept(&invitation).expect("first use");
        assert!(sessions.accept(&invitation).is_none());
        let session = sessions.find(&secret).expect("an open session");
        assert_eq!((session.user, session.ended.is_cancelled()), (user, false));
        sessions.end(&secret);
        assert!(session.ended.is_cancelled() && sessions.find(&secret).is_none());
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=b; orrery_session=secret; orrery_session_x=no"));
        assert_eq!(cookie(&headers), Some("secret"));
    }
}
