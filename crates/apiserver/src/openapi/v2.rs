//! OpenAPI v2, as far as kubectl needs it: a document that describes nothing.
//!
//! kubectl reads v2 only when v3 does not know a kind that it is about to send, as with `kind: List`, which is no
//! resource anywhere. It then checks what it finds here by itself, and the server still validates each item. So an
//! empty document is enough, and none at all would refuse every List. It is read as protobuf by kubectl.

use axum::response::Response;
use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use crate::respond;

/// How kubectl asks for the document.
const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// What it is then told: Go's mime package does not read the name it asks for.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const TITLE: &str = "Orrery (described in /openapi/v3)";

pub fn answer(headers: &HeaderMap) -> Response {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.into_iter().any(|value| value.contains(ASKED) || value.contains(PROTOBUF)) {
        return respond::bytes(StatusCode::OK, PROTOBUF, protobuf());
    }
    let info = json!({ "title": TITLE, "version": env!("CARGO_PKG_VERSION") });
    respond::value(StatusCode::OK, &json!({ "swagger": "2.0", "info": info, "paths": {} }), false)
}

/// `openapi.v2.Document` with the three fields that must be there: swagger, info and paths.
fn protobuf() -> Bytes {
    let mut info = Vec::new();
    field(&mut info, 1, TITLE.as_bytes());
    field(&mut info, 2, env!("CARGO_PKG_VERSION").as_bytes());
    let mut document = Vec::new();
    field(&mut document, 1, b"2.0");
    field(&mut document, 2, &info);
    field(&mut document, 8, b"");
    document.into()
}

/// A length-delimited field. One byte of length is enough for all that is written here.
fn field(out: &mut Vec<u8>, number: u8, value: &[u8]) {
    let length = u8::try_from(value.len()).ok().filter(|length| *length < 0x80);
    out.extend([(number << 3) | 2, length.expect("the texts here are short")]);
    out.extend_from_slice(value);
}
