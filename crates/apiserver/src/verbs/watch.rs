//! Following a collection. A watch is a cursor in the store and two timers: no task, no queue of its
//! own, so idle ones cost next to nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use machinery::status::Status;
use rand::Rng as _;
use serde_json::{Value, json};
use store::{Entry, Event, EventKind, Paging, ReadError, Revision, Watch, WatchEnded};
use tokio::time::Instant;

use crate::call::Call;
use crate::metrics::Watching;
use crate::negotiate::Form;
use crate::options;
use crate::respond;
use crate::selection::Selection;

use super::list::{parse_revision, too_old};

/// How often a client that asked for bookmarks gets one.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// How long a watch lives when the client does not say: at least this, at most twice.
const LIFETIME_SECONDS: u64 = 1800;
/// How many of the initial objects go into one chunk.
const CHUNK: usize = 128;

/// Where a watch begins.
enum Start {
    /// After a revision the client knows.
    After(Revision),
    /// With everything there is, and perhaps a mark where that ends.
    State { mark_end: bool },
    /// With the next change.
    Now,
}

/// GET with `watch=1`.
pub fn watch(call: Call) -> Result<Response, Status> {
    let selection = Selection::read(&call.kind, &call.query)?;
    let start = start(&call)?;
    let scope = call.scope()?;
    let store = call.server.store();
    let seconds = call.query.timeout_seconds.filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or_else(|| LIFETIME_SECONDS + rand::rng().random_range(0..LIFETIME_SECONDS));
    let mut stage = Stage { initial: Vec::new().into_iter(), initial_revision: Revision(0), mark_end: false };
    let from = match start {
        Start::After(revision) => revision,
        Start::Now => store.revision(),
        Start::State { mark_end } => {
            let page = store.list(&scope, &Paging::default()).map_err(Status::internal)?;
            stage = Stage { initial: page.entries.into_iter(), initial_revision: page.revision, mark_end };
            page.revision
        }
    };
    let cursor = match store.watch(&scope, from) {
        Ok(watch) => Ok(watch),
        // A revision of the future is one of another store: the client must list again, as for one too old.
        Err(ReadError::Expired { requested, oldest } | ReadError::Future { requested, current: oldest }) => {
            Err(too_old(requested, oldest))
        }
    };
    let closing = call.server.closing();
    let following = Following {
        bookmarks: call.query.allow_watch_bookmarks,
        selection,
        stage,
        cursor,
        deadline: Instant::now() + Duration::from_secs(seconds),
        next_bookmark: Instant::now() + BOOKMARK_PERIOD,
        headers: true,
        over: false,
        _counted: call.server.metrics().watching(),
        call,
    };
    let chunks = stream::unfold(following, |mut following| async move {
        let chunk = following.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), following))
    });
    let chunks = futures::StreamExt::take_until(chunks, closing.cancelled_owned());
    Ok(respond::bytes(StatusCode::OK, respond::JSON, Body::from_stream(chunks)))
}

fn start(call: &Call) -> Result<Start, Status> {
    let query = &call.query;
    let revision = parse_revision(&query.resource_version)?.filter(|revision| revision.0 > 0);
    match query.send_initial_events {
        Some(true) if query.resource_version_match != "NotOlderThan" => Err(invalid(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        Some(true) => {
            super::list::refuse_future(call, &query.resource_version)?;
            Ok(Start::State { mark_end: query.allow_watch_bookmarks })
        }
        None if !query.resource_version_match.is_empty() => Err(invalid(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        Some(false) if revision.is_none() => Ok(Start::Now),
        _ => Ok(revision.map_or(Start::State { mark_end: false }, Start::After)),
    }
}

fn invalid(field: &str, why: &str) -> Status {
    options::invalid("ListOptions", vec![machinery::field::forbidden(&machinery::field::Path::new(field), why)])
}

/// The objects that were there when the watch began.
struct Stage {
    initial: std::vec::IntoIter<Arc<Entry>>,
    initial_revision: Revision,
    mark_end: bool,
}

/// A watch under way.
struct Following {
    call: Call,
    selection: Selection,
    stage: Stage,
    cursor: Result<Watch, Status>,
    deadline: Instant,
    next_bookmark: Instant,
    bookmarks: bool,
    /// Whether the next table still has to carry its column definitions.
    headers: bool,
    over: bool,
    _counted: Watching,
}

impl Following {
    /// The next bytes to send; `None` ends the watch.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while out.is_empty() {
            if self.over {
                return None;
            }
            if self.stage.initial.len() > 0 {
                self.send_initial(&mut out);
            } else if std::mem::take(&mut self.stage.mark_end) {
                self.bookmark(&mut out, self.stage.initial_revision, true);
            } else {
                self.follow(&mut out).await;
            }
        }
        Some(out.into())
    }

    fn send_initial(&mut self, out: &mut Vec<u8>) {
        for _ in 0..CHUNK {
            let Some(entry) = self.stage.initial.next() else { break };
            if self.wants(&entry) {
                self.event(out, "ADDED", &entry);
            }
        }
    }

    async fn follow(&mut self, out: &mut Vec<u8>) {
        let watch = match &mut self.cursor {
            Ok(watch) => watch,
            Err(status) => {
                let status = status.clone();
                return self.fail(out, &status);
            }
        };
        tokio::select! {
            biased;
            events = watch.next() => match events {
                Ok(events) => events.iter().for_each(|event| self.change(out, event)),
                Err(WatchEnded::Expired { oldest }) => {
                    let status = Status::expired(format!("too old resource version: the watch fell behind ({oldest})"));
                    self.fail(out, &status);
                }
                Err(WatchEnded::Closed) => self.over = true,
            },
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                let revision = watch.progress();
                self.next_bookmark = Instant::now() + BOOKMARK_PERIOD;
                self.bookmark(out, revision, false);
            }
            () = tokio::time::sleep_until(self.deadline) => {
                // A last bookmark lets the client go on from here without reading anything twice.
                if self.bookmarks {
                    let revision = watch.progress();
                    self.bookmark(out, revision, false);
                }
                self.over = true;
            }
        }
    }

    /// One change as this client sees it: objects that begin or cease to match are added or deleted.
    fn change(&mut self, out: &mut Vec<u8>, event: &Event) {
        let now = self.wants(&event.entry);
        let before = event.previous.as_deref().is_some_and(|previous| self.wants(previous));
        match (event.kind, before, now) {
            (_, false, false) => {}
            (EventKind::Deleted, ..) => self.event(out, "DELETED", &event.entry),
            (_, false, true) => self.event(out, "ADDED", &event.entry),
            (_, true, true) => self.event(out, "MODIFIED", &event.entry),
            (_, true, false) => {
                // What the client knew, at the revision of the change that took it away.
                let Some(previous) = &event.previous else { return };
                let mut value = self.call.value(previous);
                value["metadata"]["resourceVersion"] = event.revision().to_string().into();
                self.value(out, "DELETED", value);
            }
        }
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.selection.matches(&self.call, entry)
    }

    fn event(&mut self, out: &mut Vec<u8>, kind: &str, entry: &Entry) {
        match self.call.accept.form {
            Form::Object => frame(out, kind, &self.call.read(entry).into_bytes()),
            Form::Metadata => frame(out, kind, &self.call.accept.stored_partial(&entry.value)),
            Form::Table => self.value(out, kind, self.call.value(entry)),
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, kind: &str, value: Value) {
        let headers = std::mem::take(&mut self.headers);
        let shaped = self.call.accept.shape(&self.call.kind, value, headers);
        frame(out, kind, shaped.to_string().as_bytes());
    }

    fn bookmark(&mut self, out: &mut Vec<u8>, revision: Revision, initial_end: bool) {
        let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if initial_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let (kind, accept) = (&self.call.kind, &self.call.accept);
        let object = match accept.form {
            Form::Object => json!({ "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata }),
            Form::Metadata => accept.partial(&json!({ "metadata": metadata })),
            Form::Table => accept.table(kind, &[], &metadata, false),
        };
        frame(out, "BOOKMARK", object.to_string().as_bytes());
    }

    fn fail(&mut self, out: &mut Vec<u8>, status: &Status) {
        frame(out, "ERROR", status.to_value().to_string().as_bytes());
        self.over = true;
    }
}

fn frame(out: &mut Vec<u8>, kind: &str, object: &[u8]) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
}
