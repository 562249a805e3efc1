//! Who asks, and a Kubernetes client that asks in their name.

use axum::http::{HeaderName, HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use serde::Serialize;
use tower::service_fn;

use crate::error::{Error, Result};

/// Somebody the Kubernetes API knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// Groups, as authentication told us.
    pub groups: Vec<String>,
    /// The uid, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// The one who sent this request.
#[derive(Clone)]
pub struct Caller {
    /// Who.
    pub user: User,
    /// A client whose every request the Kubernetes API judges as this user's.
    pub client: Client,
}

impl Caller {
    /// `server` must be allowed to impersonate.
    pub fn new(server: &Client, user: User) -> Result<Self> {
        let headers = impersonation(&user)?;
        let server = server.clone();
        let namespace = server.default_namespace().to_owned();
        let service = service_fn(move |mut request: Request<Body>| {
            request.headers_mut().extend(headers.iter().cloned());
            let server = server.clone();
            async move { server.send(request).await }
        });
        Ok(Self { user, client: Client::new(service, namespace) })
    }
}

fn impersonation(user: &User) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let value = |text: &str| {
        HeaderValue::from_str(text)
            .map_err(|_| Error::forbidden(format!("User name, group or uid {text:?} cannot be sent on")))
    };
    let mut headers = vec![(HeaderName::from_static("impersonate-user"), value(&user.name)?)];
    for group in &user.groups {
        headers.push((HeaderName::from_static("impersonate-group"), value(group)?));
    }
    if let Some(uid) = &user.uid {
        headers.push((HeaderName::from_static("impersonate-uid"), value(uid)?));
    }
    Ok(headers)
}
