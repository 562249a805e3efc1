//! The web UI, inside the binary. Any path that is no file is a page of the UI, so deep links work.

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

/// What Vite built. A binary built without it says so instead of a blank page.
#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
#[allow_missing = true]
struct Files;

/// Serves a file of the UI.
pub async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    match Files::get(path).filter(|_| !path.is_empty()) {
        // Vite puts a digest into the names of these, so they never change.
        Some(file) if path.starts_with("assets/") => {
            respond(path, &file, &headers, "public, max-age=31536000, immutable")
        }
        Some(file) => respond(path, &file, &headers, "no-cache"),
        None => match Files::get("index.html") {
            Some(page) => respond("index.html", &page, &headers, "no-cache"),
            None => (StatusCode::NOT_FOUND, "This binary was built without the web UI. Build it with `make up`.\n")
                .into_response(),
        },
    }
}

fn respond(path: &str, file: &EmbeddedFile, headers: &HeaderMap, caching: &'static str) -> Response {
    let tag = format!("\"{}\"", hexadecimal(&file.metadata.sha256_hash()));
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let kind = HeaderValue::from_static(media_type(path));
    let tag = HeaderValue::from_str(&tag).expect("hexadecimal digits are a header value");
    let headers =
        [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, HeaderValue::from_static(caching)), (header::ETAG, tag)];
    (headers, file.data.clone()).into_response()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "woff2" => "font/woff2",
        "png" => "image/png",
        _ => "application/octet-stream",
    }
}

/// Bytes as digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
