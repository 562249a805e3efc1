//! Whose request it is: the header, the cookie, the query or the body says so, or nobody does and it gets a name.

use api::omnia::routing::Routing;
use http::request::Parts;
use http::{HeaderMap, header};
use serde::Deserialize;

/// A session's name, and whether the client must be told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) is_new: bool,
}

/// More than this of a body is not read to find a session in it.
pub(crate) const LARGEST: u64 = 1 << 20;

/// What the head of a request says.
pub(crate) fn in_head(parts: &Parts, routing: &Routing) -> Option<String> {
    let header = parts.headers.get(routing.session_header.as_str()).and_then(|value| value.to_str().ok());
    let named = header.map(str::trim).filter(|id| !id.is_empty()).map(ToOwned::to_owned);
    named.or_else(|| cookie(&parts.headers, &routing.session_cookie)).or_else(|| in_query(parts))
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// A WebSocket of a browser can name its session nowhere else.
fn in_query(parts: &Parts) -> Option<String> {
    let mut pairs = parts.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, value)| *key == "sessionId" && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// Whether a request's body may name its session, as our own facade's does, and is short enough to look.
pub(crate) fn may_be_in_body(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let is_json = text(header::CONTENT_TYPE).is_some_and(|type_| type_.starts_with("application/json"));
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    is_json && length.is_some_and(|length| length <= LARGEST)
}

/// What the body says.
pub(crate) fn in_body(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "sessionId")]
        id: Option<String>,
    }
    serde_json::from_slice::<Named>(body).ok()?.id.filter(|id| !id.is_empty())
}

impl Session {
    /// The one that was named, or a new one.
    pub(crate) fn of(named: Option<String>) -> Self {
        match named {
            Some(id) => Self { id, is_new: false },
            None => Self { id: uuid::Uuid::new_v4().to_string(), is_new: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(head: http::request::Builder) -> Option<String> {
        let routing: Routing = serde_json::from_str(
            r#"{"stable":"","canary":"","weight":0,"salt":"","window":"","sessionHeader":"X-S","sessionCookie":"sid"}"#,
        )
        .expect("a routing");
        in_head(&head.body(()).expect("a request").into_parts().0, &routing)
    }

    #[test]
    fn the_header_comes_before_the_cookie_and_that_before_the_query() {
        let request = || http::Request::get("/ws?a=b&sessionId=q");
        assert_eq!(named(request().header("x-s", " h ").header("cookie", "sid=c")), Some("h".into()));
        assert_eq!(named(request().header("cookie", "a=b; sid=c")), Some("c".into()));
        assert_eq!(named(request()), Some("q".into()));
        assert_eq!(named(http::Request::get("/").header("cookie", "sid=")), None);
    }

    #[test]
    fn a_body_is_looked_into_when_it_is_short_json() {
        let headers = |length: &str| {
            let pairs = [("content-type", "application/json; charset=utf-8"), ("content-length", length)];
            pairs.into_iter().map(|(k, v)| (k.parse().expect("a name"), v.parse().expect("a value"))).collect()
        };
        assert!(may_be_in_body(&headers("10")));
        assert!(!may_be_in_body(&headers("9999999999")));
        assert_eq!(in_body(br#"{"message":"x","sessionId":"b"}"#), Some("b".into()));
        assert_eq!(in_body(b"{}"), None);
    }
}
