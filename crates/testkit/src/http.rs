//! Raw requests, for tests about the wire itself.

use apiserver::user::User;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::Plane;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub code: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The texts of the `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    }
}

impl Plane {
    /// A request as the administrator.
    pub async fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        self.request_as(User::master("admin"), method, path, headers, body).await
    }

    /// A request as someone.
    pub async fn request_as(
        &self,
        user: User,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).expect("a method")).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).expect("a well-formed request");
        let Ok(response) = self.server().service_as(user).oneshot(request).await;
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("the whole answer").to_vec();
        Answer { code: parts.status, headers: parts.headers, bytes }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], Body::empty()).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path, &[], Body::empty()).await
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, object: &Value) -> Answer {
        self.request("POST", path, &[("content-type", "application/json")], object.to_string()).await
    }

    /// PUT of JSON.
    pub async fn put(&self, path: &str, object: &Value) -> Answer {
        self.request("PUT", path, &[("content-type", "application/json")], object.to_string()).await
    }

    /// PATCH with a type: `merge-patch+json`, `json-patch+json`, `strategic-merge-patch+json`, `apply-patch+yaml`.
    pub async fn patch(&self, path: &str, kind: &str, change: &Value) -> Answer {
        let content_type = format!("application/{kind}");
        self.request("PATCH", path, &[("content-type", content_type.as_str())], change.to_string()).await
    }
}
