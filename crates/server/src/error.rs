//! The one shape of an error: what happened, in a word for programs and a sentence for people.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A refusal, as every route answers it.
#[derive(Debug)]
pub struct Error {
    status: StatusCode,
    reason: String,
    message: String,
    details: Option<Value>,
}

/// What handlers return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal with a stable reason.
    pub fn new(status: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self { status, reason: reason.to_owned(), message: message.into(), details: None }
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

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Whether the caller may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.status == StatusCode::FORBIDDEN
    }
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
        if self.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer realm=\"orrery\""));
        }
        response
    }
}
