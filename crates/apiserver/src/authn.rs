//! Who is asking: client certificates, bearer tokens, impersonation.
//!
//! Nobody gets beyond the public paths without proof. A credential that was shown and is not good is an
//! error even there: a client with a stale token should learn that, not go on as nobody.

mod impersonate;

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;
use machinery::status::Status;

use crate::access::Access;
use crate::tls;
use crate::tokens;
use crate::user::{AUTHENTICATED, User};

pub(crate) use impersonate::assume;

/// Paths served to anyone, with what lies below them.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Why a credential proves nothing. Never holds the credential itself.
#[derive(Debug, thiserror::Error)]
enum Rejected {
    #[error("client certificate: {0}")]
    Certificate(#[from] tls::Rejected),
    #[error("client certificate has expired")]
    CertificateExpired,
    #[error("bearer token: {0}")]
    Token(#[from] tokens::Invalid),
    #[error("the Authorization header is not \"Bearer TOKEN\"")]
    Scheme,
}

/// The user a request speaks for, or the 401 (403 for impersonation) to answer with.
pub(crate) fn identify(access: &Access, parts: &Parts, now: Timestamp) -> Result<User, Status> {
    let user = match authenticate(access, parts, now) {
        Ok(Some(user)) => user,
        Ok(None) if is_public(parts.uri.path()) => User::anonymous(),
        Ok(None) => {
            tracing::info!(target: "audit", path = parts.uri.path(), "denied: no credentials");
            return Err(Status::unauthorized());
        }
        Err(reason) => {
            tracing::info!(target: "audit", path = parts.uri.path(), %reason, "denied: bad credentials");
            return Err(Status::unauthorized());
        }
    };
    assume(access, user, &parts.headers)
}

/// The user the credentials prove; `None` when there are none. One good credential is enough.
fn authenticate(access: &Access, parts: &Parts, now: Timestamp) -> Result<Option<User>, Rejected> {
    let certificate = parts.extensions.get::<Arc<tls::Certificate>>().map(|shown| certificate(shown, now));
    if let Some(Ok(user)) = certificate {
        return Ok(Some(user));
    }
    let token = parts.headers.get(AUTHORIZATION).map(|header| {
        let token = header.to_str().ok().and_then(bearer).ok_or(Rejected::Scheme)?;
        let verified = access.verify_token(token, &[], now)?;
        Ok::<_, Rejected>(verified.user)
    });
    match (token, certificate) {
        (Some(Ok(user)), _) => Ok(Some(user)),
        (Some(Err(reason)), _) | (None, Some(Err(reason))) => Err(reason),
        (None, _) => Ok(None),
    }
}

fn certificate(shown: &tls::Certificate, now: Timestamp) -> Result<User, Rejected> {
    let identified = shown.as_ref().map_err(Clone::clone)?;
    if identified.ends < now {
        return Err(Rejected::CertificateExpired);
    }
    let mut user = identified.user.clone();
    user.groups.push(AUTHENTICATED.into());
    Ok(user)
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|public| path.strip_prefix(public).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}
