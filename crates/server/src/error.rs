//! The one shape of an error: what happened, in a word for programs and a sentence for people.

use axum::Json;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A refusal, as every route answers it.
#[derive(Debug)]
pub struct Error {
    status: StatusCode,
    reason: String,
    message: String,
    details: Option<Value>,
    retry_after: Option<u64>,
}

/// What handlers return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal with a stable reason.
    pub fn new(status: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self { status, reason: reason.to_owned(), message: message.into(), details: None, retry_after: None }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401, with the way in.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    /// 403.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// With when to come again, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Whether the credentials were not good.
    pub fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Whether the caller may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.status == StatusCode::FORBIDDEN
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Gives refusals that the framework made (no such method, a body too large, a panic) the one shape.
pub async fn shape(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    let media = response.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    if !(status.is_client_error() || status.is_server_error()) || media == Some("application/json") {
        return response;
    }
    let (parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, 4096).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let words = status.canonical_reason().unwrap_or("Refused");
    let message = if text.is_empty() { format!("{words}. GET /api/v1/openapi.json lists what there is") } else { text };
    let mut shaped = Error::new(status, &words.replace(' ', ""), message).into_response();
    for (name, value) in &parts.headers {
        if *name != header::CONTENT_TYPE && *name != header::CONTENT_LENGTH {
            shaped.headers_mut().insert(name, value.clone());
        }
    }
    shaped
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            tracing::warn!(error = %error, "the Kubernetes API did not answer");
            return Self::new(
                StatusCode::BAD_GATEWAY,
                "PlaneUnavailable",
                format!("The Kubernetes API did not answer: {error}"),
            );
        };
        Self {
            status: StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            details: status.details.as_ref().and_then(|details| serde_json::to_value(details).ok()),
            reason: status.reason.clone(),
            message: status.message.clone(),
            retry_after: None,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.reason, "message": self.message, "code": self.status.as_u16()});
        if let Some(details) = self.details {
            body["details"] = details;
        }
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer realm=\"orrery\""));
        }
        response
    }
}
