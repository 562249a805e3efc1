//! Answers: bytes, values and refusals, with the headers clients expect.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{HeaderMap, StatusCode};
use machinery::status::Status;
use serde_json::Value;

/// The media type of almost every answer.
pub const JSON: &str = "application/json";

/// An answer of bytes that are already JSON.
pub fn bytes(code: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An answer of one JSON value.
pub fn value(code: StatusCode, value: &Value, pretty: bool) -> Response {
    bytes(code, JSON, print(value, pretty))
}

/// A value as text; indented when a person reads it.
pub fn print(value: &Value, pretty: bool) -> Bytes {
    let text = if pretty { serde_json::to_string_pretty(value).map(|text| text + "\n") } else { Ok(value.to_string()) };
    text.expect("values are JSON").into()
}

/// Plain text.
pub fn text(code: StatusCode, body: impl Into<Body>) -> Response {
    bytes(code, "text/plain; charset=utf-8", body)
}

/// A refusal.
pub fn refuse(status: &Status) -> Response {
    self::status(StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), status)
}

/// A Status as the body of an answer with this code.
pub fn status(code: StatusCode, status: &Status) -> Response {
    let mut response = value(code, &status.to_value(), false);
    if let Some(seconds) = status.details.retry_after_seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds `Warning` headers, which kubectl prints.
pub fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for text in warnings {
        let mut quoted = String::with_capacity(text.len() + 10);
        for character in text.chars().filter(|character| !character.is_control()) {
            if matches!(character, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(character);
        }
        if let Ok(header) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(WARNING, header);
        }
    }
}

/// Headers every answer carries.
pub fn stamp(headers: &mut HeaderMap) {
    static AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
    if let Ok(id) = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()) {
        headers.insert(AUDIT_ID.clone(), id);
    }
}
