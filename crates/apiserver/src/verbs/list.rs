//! Reading a collection: paging over one moment, selectors, and bytes that are not taken apart
//! unless the shape asks for it.

use std::sync::Arc;

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http::StatusCode;
use machinery::field::{self, Path};
use machinery::status::Status;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Entry, Page, Paging, ReadError, Revision};

use crate::call::Call;
use crate::negotiate::Form;
use crate::options;
use crate::respond;
use crate::selection::Selection;

/// Where a paged list goes on. Opaque to clients.
#[derive(Debug, Serialize, Deserialize)]
struct Continuation {
    #[serde(rename = "rv")]
    revision: u64,
    namespace: String,
    name: String,
}

/// What was found.
pub struct Found {
    /// The objects, in order.
    pub entries: Vec<Arc<Entry>>,
    /// The moment they are of.
    pub revision: Revision,
    next: Option<Continuation>,
    remaining: Option<usize>,
}

/// GET of a collection.
pub fn list(call: &Call) -> Result<Response, Status> {
    let found = find(call)?;
    Ok(answer(call, &found))
}

/// The objects a list request is about.
pub fn find(call: &Call) -> Result<Found, Status> {
    let selection = Selection::read(&call.kind, &call.query)?;
    let (at, after) = moment(call)?;
    let limit = call.query.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if selection.everything() {
        let page = page(call, &Paging { limit, after, at })?;
        let remaining = (page.remaining > 0).then_some(page.remaining);
        let next = remaining.and_then(|_| continuation(&page));
        return Ok(Found { revision: page.revision, entries: page.entries, next, remaining });
    }
    select(call, &selection, limit, at, after)
}

/// Filters page by page until the limit is full, so that a selective list does not skip objects.
fn select(
    call: &Call,
    selection: &Selection,
    limit: Option<usize>,
    mut at: Option<Revision>,
    mut after: After,
) -> Result<Found, Status> {
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    loop {
        let page = page(call, &Paging { limit: limit.map(|limit| limit.max(500)), after: after.clone(), at })?;
        at = Some(page.revision);
        let full = limit.unwrap_or(usize::MAX);
        let last = page.entries.last().cloned();
        for entry in page.entries {
            if entries.len() == full {
                // There is at least one more object, matching or not: clients ask again.
                let next = entries.last().map(|last| from(last, page.revision));
                return Ok(Found { entries, revision: page.revision, next, remaining: None });
            }
            if selection.matches(call, &entry) {
                entries.push(entry);
            }
        }
        if page.remaining == 0 {
            return Ok(Found { entries, revision: page.revision, next: None, remaining: None });
        }
        after = last.map(|last| (last.key.namespace.clone(), last.key.name.clone()));
    }
}

fn page(call: &Call, paging: &Paging) -> Result<Page, Status> {
    let continued = paging.after.is_some();
    call.server.store().list(&call.scope()?, paging).map_err(|error| match error {
        ReadError::Expired { .. } if continued => Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter.",
        ),
        ReadError::Expired { requested, oldest } => too_old(requested, oldest),
        ReadError::Future { requested, current } => too_large(requested, current),
    })
}

fn continuation(page: &Page) -> Option<Continuation> {
    page.entries.last().map(|last| from(last, page.revision))
}

fn from(entry: &Entry, revision: Revision) -> Continuation {
    Continuation { revision: revision.0, namespace: entry.key.namespace.clone(), name: entry.key.name.clone() }
}

/// Namespace and name of the last object of the page before.
type After = Option<(String, String)>;

/// The moment a list is about: now, the revision asked for exactly, or that of the first page.
fn moment(call: &Call) -> Result<(Option<Revision>, After), Status> {
    let query = &call.query;
    if !query.continuation.is_empty() {
        if !query.resource_version.is_empty() && query.resource_version != "0" {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let token = read_continuation(&query.continuation)?;
        return Ok((Some(Revision(token.revision)), Some((token.namespace, token.name))));
    }
    let revision = parse_revision(&query.resource_version)?;
    match query.resource_version_match.as_str() {
        "" if query.limit.is_some() && revision.is_some_and(|revision| revision.0 > 0) => Ok((revision, None)),
        "Exact" | "NotOlderThan" if query.resource_version.is_empty() => {
            Err(forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        }
        "Exact" => match revision.filter(|revision| revision.0 > 0) {
            Some(revision) => Ok((Some(revision), None)),
            None => Err(forbidden_match("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")),
        },
        "" | "NotOlderThan" => {
            refuse_future(call, &query.resource_version)?;
            Ok((None, None))
        }
        other => {
            let path = Path::new("resourceVersionMatch");
            let cause = field::not_supported(&path, &json!(other), &["Exact", "NotOlderThan", ""]);
            Err(options::invalid("ListOptions", vec![cause]))
        }
    }
}

fn forbidden_match(why: &str) -> Status {
    options::invalid("ListOptions", vec![field::forbidden(&Path::new("resourceVersionMatch"), why)])
}

fn read_continuation(token: &str) -> Result<Continuation, Status> {
    BASE64
        .decode(token)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| Status::bad_request("invalid continue token: continue key is not valid"))
}

/// Reads a resourceVersion; empty is none.
pub fn parse_revision(text: &str) -> Result<Option<Revision>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(|number| Some(Revision(number)))
        .map_err(|_| Status::bad_request(format!("invalid resource version {text:?}: must be a whole number")))
}

/// A revision we have not reached is a mistake or another store's; waiting for it would only hang.
pub fn refuse_future(call: &Call, resource_version: &str) -> Result<(), Status> {
    let current = call.server.store().revision();
    match parse_revision(resource_version)? {
        Some(requested) if requested > current => Err(too_large(requested, current)),
        _ => Ok(()),
    }
}

/// 410 for a revision that is compacted away.
pub fn too_old(requested: Revision, oldest: Revision) -> Status {
    Status::expired(format!("too old resource version: {requested} ({oldest})"))
}

/// 504 for a revision that is not there yet, with the cause client-go looks for.
pub fn too_large(requested: Revision, current: Revision) -> Status {
    let mut status =
        Status::new(504, "Timeout", format!("Timeout: Too large resource version: {requested}, current: {current}"));
    status.details.causes.push(machinery::status::Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    });
    status.details.retry_after_seconds = Some(1);
    status
}

/// A list in the shape the client wants.
pub fn answer(call: &Call, found: &Found) -> Response {
    let metadata = list_metadata(found);
    let accept = &call.accept;
    if !accept.pretty && accept.form != Form::Table {
        let list = if accept.form == Form::Object { object_list } else { partial_list };
        return respond::bytes(StatusCode::OK, respond::JSON, list(call, &metadata, &found.entries));
    }
    let values = found.entries.iter().map(|entry| call.value(entry));
    let value = match accept.form {
        Form::Table => {
            let rows: Vec<Value> = values.map(|value| accept.row(&call.kind, &value)).collect();
            accept.table(&call.kind, &rows, &metadata, true)
        }
        Form::Metadata => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": accept.meta_version(),
            "metadata": metadata,
            "items": values.map(|value| accept.partial(&value)).collect::<Vec<_>>(),
        }),
        Form::Object => json!({
            "kind": call.kind.list_kind,
            "apiVersion": call.kind.api_version(),
            "metadata": metadata,
            "items": values.collect::<Vec<_>>(),
        }),
    };
    respond::value(StatusCode::OK, &value, accept.pretty)
}

fn list_metadata(found: &Found) -> Value {
    let mut metadata = json!({ "resourceVersion": found.revision.to_string() });
    if let Some(next) = &found.next {
        let token = serde_json::to_vec(next).expect("a token is plain data");
        metadata["continue"] = BASE64.encode(token).into();
        if let Some(remaining) = found.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    metadata
}

/// Whole objects, as stored, strung together.
fn object_list(call: &Call, metadata: &Value, entries: &[Arc<Entry>]) -> Vec<u8> {
    let size: usize = entries.iter().map(|entry| entry.value.len() + 1).sum();
    let items = entries.iter().map(|entry| call.read(entry).into_bytes());
    strung(&call.kind.list_kind, &call.kind.api_version(), metadata, size, items)
}

/// Their metadata alone, as stored, strung together.
fn partial_list(call: &Call, metadata: &Value, entries: &[Arc<Entry>]) -> Vec<u8> {
    let items = entries.iter().map(|entry| call.accept.stored_partial(&entry.value));
    strung("PartialObjectMetadataList", &call.accept.meta_version(), metadata, 0, items)
}

fn strung<I: AsRef<[u8]>>(
    kind: &str,
    version: &str,
    metadata: &Value,
    size: usize,
    items: impl Iterator<Item = I>,
) -> Vec<u8> {
    let (kind, version) = (json!(kind), json!(version));
    let head = format!(r#"{{"kind":{kind},"apiVersion":{version},"metadata":{metadata},"items":["#);
    let mut out = Vec::with_capacity(head.len() + size + 2);
    out.extend_from_slice(head.as_bytes());
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item.as_ref());
    }
    out.extend_from_slice(b"]}");
    out
}
