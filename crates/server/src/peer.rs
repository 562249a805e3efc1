//! Where a request came from, and whether it came over TLS: from the connection, or in the words of a proxy in front.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;

/// The other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address, unless there is no connection (a request made inside the process).
    pub address: Option<IpAddr>,
    /// Its port, when it is connected to us itself.
    pub port: Option<u16>,
    /// Whether the browser speaks TLS to whoever it is connected to.
    pub secure: bool,
}

impl Peer {
    /// What attempts are counted by.
    pub fn key(&self) -> String {
        self.address.as_ref().map_or_else(String::new, IpAddr::to_string)
    }

    fn read(connected: Option<SocketAddr>, headers: &HeaderMap, behind_proxy: bool) -> Self {
        // Nobody but the caller is hurt when this one is a lie: a cookie that is Secure is sent less often.
        let secure = text(headers, "x-forwarded-proto").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let itself = Self {
            address: connected.map(|address| address.ip()),
            port: connected.map(|address| address.port()),
            secure,
        };
        if !behind_proxy {
            return itself;
        }
        // Each proxy appends whom it heard; only the last word is of the one that we know.
        let heard = text(headers, "x-forwarded-for").and_then(|list| list.rsplit(',').next()?.trim().parse().ok());
        heard.map_or(itself, |address| Self { address: Some(address), port: None, secure })
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.address, self.port) {
            (Some(address), Some(port)) => SocketAddr::new(address, port).fmt(formatter),
            (Some(address), None) => address.fmt(formatter),
            (None, _) => Ok(()),
        }
    }
}

/// The last of a header's values: an earlier one may be the caller's own.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get_all(name).iter().next_back()?.to_str().ok()
}

/// Puts a [`Peer`] on the request.
pub async fn note(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let connected = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let peer = Peer::read(connected, request.headers(), app.behind_proxy);
    request.extensions_mut().insert(peer);
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn read(headers: &[(&'static str, &'static str)], behind_proxy: bool) -> Peer {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        Peer::read(Some(SocketAddr::from(([10, 0, 0, 1], 5000))), &headers, behind_proxy)
    }

    #[test]
    fn a_proxy_is_believed_only_when_there_is_one() {
        let said = [("x-forwarded-for", "1.2.3.4, 5.6.7.8"), ("x-forwarded-proto", "https")];
        assert_eq!(read(&said, false).to_string(), "10.0.0.1:5000");
        // The first address is what the caller said of itself.
        assert_eq!(read(&said, true).to_string(), "5.6.7.8");
        assert!(read(&said, true).secure);
        assert_eq!(read(&[("x-forwarded-for", "nonsense")], true).to_string(), "10.0.0.1:5000");
        assert!(!read(&[], true).secure);
    }
}
