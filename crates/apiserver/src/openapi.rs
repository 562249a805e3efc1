//! OpenAPI v3: an index, and one document for each group and version, made when first asked for.
//!
//! kubectl reads two things here: the schemas (`explain`, merge keys of `apply`) and whether PATCH
//! takes `fieldValidation`, which tells it that the server validates.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::kinds::{Kind, Table};
use crate::request::{Query, unknown_path};
use crate::respond;
use crate::server::ApiServer;

mod components;
mod operations;
mod v2;

/// Documents by path, with the hash they were made for.
#[derive(Default)]
pub struct Documents {
    made: Mutex<BTreeMap<String, (String, Bytes)>>,
}

/// Answers below `/openapi`.
pub fn answer(server: &ApiServer, rest: &[&str], query: &Query, headers: &HeaderMap) -> Result<Response, Status> {
    match rest {
        ["v3"] => Ok(respond::value(StatusCode::OK, &index(&server.kinds().table()), false)),
        ["v3", path @ ..] => document(server, &path.join("/"), query, headers),
        ["v2"] => Ok(v2::answer(headers)),
        _ => Err(unknown_path()),
    }
}

/// Rows by document path, as in `apis/apps/v1`.
fn by_path(table: &Table) -> BTreeMap<String, Vec<&Arc<Kind>>> {
    let mut paths: BTreeMap<String, Vec<&Arc<Kind>>> = BTreeMap::new();
    for kind in table.iter() {
        paths.entry(path(kind)).or_default().push(kind);
    }
    paths
}

fn path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

fn index(table: &Table) -> Value {
    let paths: BTreeMap<String, Value> = by_path(table)
        .into_iter()
        .map(|(path, kinds)| {
            let url = format!("/openapi/v3/{path}?hash={}", hash(&kinds));
            (path, json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// Changes when the document does: with the release for built-in kinds, with the definition for others.
fn hash(kinds: &[&Arc<Kind>]) -> String {
    let mut sha = Sha256::new();
    sha.update(env!("CARGO_PKG_VERSION"));
    for kind in kinds {
        sha.update(&kind.plural);
        sha.update(&kind.fingerprint);
    }
    hex::encode(sha.finalize()).to_uppercase()
}

fn document(server: &ApiServer, path: &str, query: &Query, headers: &HeaderMap) -> Result<Response, Status> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let json = accept.split(',').any(|clause| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        matches!(media_type, "" | "*/*" | "application/*" | "application/json")
    });
    if !json {
        return Err(Status::new(406, "NotAcceptable", "OpenAPI v3 is served as application/json only"));
    }
    let table = server.kinds().table();
    let paths = by_path(&table);
    let kinds = paths.get(path).ok_or_else(unknown_path)?;
    let hash = hash(kinds);
    match query.get("hash") {
        Some(asked) if asked != hash => {
            let mut response = respond::text(StatusCode::FOUND, "");
            if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={hash}")) {
                response.headers_mut().insert(LOCATION, location);
            }
            Ok(response)
        }
        asked => {
            let body = server.documents().get(path, &hash, || make(kinds));
            let mut response = respond::bytes(StatusCode::OK, respond::JSON, body);
            if let Ok(tag) = HeaderValue::from_str(&format!("\"{hash}\"")) {
                response.headers_mut().insert(ETAG, tag);
            }
            if asked.is_some() {
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            }
            Ok(response)
        }
    }
}

impl Documents {
    fn get(&self, path: &str, hash: &str, make: impl FnOnce() -> Value) -> Bytes {
        if let Some((made, body)) = self.made.lock().get(path)
            && made == hash
        {
            return body.clone();
        }
        let body = Bytes::from(make().to_string());
        self.made.lock().insert(path.to_owned(), (hash.to_owned(), body.clone()));
        body
    }
}

fn make(kinds: &[&Arc<Kind>]) -> Value {
    let mut paths = BTreeMap::new();
    for kind in kinds {
        paths.extend(operations::of(kind));
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Orrery", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": components::of(kinds) },
    })
}
