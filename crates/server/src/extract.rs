//! Queries and paths whose refusals have the one shape and name what is wrong.

use axum::extract::FromRequestParts;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// The longest name of anything.
const LONGEST: usize = 253;

/// The parameters of a request.
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|rejection: QueryRejection| Error::bad_request(rejection.body_text()))
    }
}

/// The names in a path. They go into paths of the Kubernetes API, so only what can be a name gets through.
pub struct Path<T>(pub T);

/// Names in a path.
pub trait Names {
    /// Each of them, with what it is called.
    fn each(&self) -> Vec<(&'static str, &str)>;
}

impl Names for String {
    fn each(&self) -> Vec<(&'static str, &str)> {
        vec![("namespace", self)]
    }
}

impl Names for (String, String) {
    fn each(&self) -> Vec<(&'static str, &str)> {
        vec![("namespace", &self.0), ("name", &self.1)]
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Names + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let axum::extract::Path(names) = axum::extract::Path::<T>::from_request_parts(parts, state)
            .await
            .map_err(|rejection: PathRejection| Error::bad_request(rejection.body_text()))?;
        for (what, name) in names.each() {
            check_name(what, name)?;
        }
        Ok(Self(names))
    }
}

/// Refuses what cannot be a name before it becomes part of a path of the Kubernetes API.
pub fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if is_name(name) {
        return Ok(());
    }
    Err(Error::bad_request(format!("{what}: {name:?} is no name: lower-case letters, digits, - and .")))
}

/// The same for a namespace that need not be given.
pub fn check_namespace(namespace: Option<&str>) -> Result<(), Error> {
    namespace.map_or(Ok(()), |namespace| check_name("namespace", namespace))
}

fn is_name(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.len() <= LONGEST
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_name_gets_through() {
        for name in ["a", "fix-login", "every-minute-1794784440", "a.b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "../secrets", "a/b", "a b", "-a", "a?x", "A", "\u{0}"] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }
}
