//! The door: who is asking ([`authn`](crate::authn)), whether they may ([`authz`](crate::authz)), the tokens
//! they get ([`tokens`](crate::tokens)) and the questions they can put about all three
//! ([`reviews`](crate::reviews)).

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{StatusCode, header};
use jiff::Timestamp;
use machinery::status::Status;
use store::{Key, Store};

use crate::attributes::Attributes;
use crate::authn;
use crate::authz::Authorizer;
use crate::tokens::{Live, Tokens};
use crate::user::User;

/// Knows who may do what. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    pub(crate) store: Store,
    pub(crate) tokens: Tokens,
    pub(crate) authorizer: Authorizer,
}

impl Access {
    /// Decides by the roles, service accounts and Pods in `store`; `tokens` signs and reads tokens.
    pub fn new(store: Store, tokens: Tokens) -> Self {
        Self { authorizer: Authorizer::new(store.clone()), store, tokens }
    }

    /// May they? `Err` is the 403 to answer with.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.authorizer.authorize(attributes)
    }

    /// Role-based access control.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Wraps routes so that each request carries the [`User`] its credentials prove (an `Arc<User>`
    /// extension), and those without or with bad ones are answered with 401.
    pub fn guard(&self, routes: Router) -> Router {
        let access = self.clone();
        let identify = move |request: &Parts| authn::identify(&access, request, Timestamp::now());
        with_user(routes, identify)
    }

    /// Wraps routes for callers in this process that speak for `user`. They need no credentials, but act as
    /// someone else only like everyone: by the impersonation headers, when `user` may.
    pub fn trust(&self, user: User, routes: Router) -> Router {
        let access = self.clone();
        let identify = move |request: &Parts| authn::assume(&access, user.clone(), &request.headers);
        with_user(routes, identify)
    }

    /// What a live check needs to know about an object.
    pub(crate) fn live(&self, resource: &str, namespace: &str, name: &str) -> Option<Live> {
        let entry = self.store.get(&Key::new(resource, namespace, name))?;
        Live::read(&entry.value)
    }
}

/// Routes that see the user `identify` names, or are not reached.
fn with_user(
    routes: Router,
    identify: impl Fn(&Parts) -> Result<User, Status> + Clone + Send + Sync + 'static,
) -> Router {
    routes.layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        let (parts, body) = request.into_parts();
        let identified = identify(&parts);
        async move {
            match identified {
                Ok(user) => {
                    let mut request = Request::from_parts(parts, body);
                    request.extensions_mut().insert(Arc::new(user));
                    next.run(request).await
                }
                Err(status) => refuse(&status),
            }
        }
    }))
}

/// A refusal as a response.
fn refuse(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, [(header::CONTENT_TYPE, "application/json")], status.to_value().to_string()).into_response()
}
