//! One resumable stream of changes.
//!
//! Each kind (in each namespace, for a caller who may not see all of them) is a *source*. A source begins with a
//! `snapshot` event that holds everything, then sends `change` events. The id of every event holds the
//! resourceVersion each source has reached, so a browser that reconnects with `Last-Event-ID` goes on where it was;
//! a source whose revision is no longer kept begins again with a snapshot. Sources of the same user share a watch.

pub mod shared;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt};
use kube::api::ListParams;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Query, check_namespace};
use crate::kinds::{KINDS, Kind, PARTS};
use crate::resources::value;
use shared::End;

const BUFFERED: usize = 256;

/// What to follow.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Wanted {
    /// Kinds, separated by commas; all of ours unless told. Also `pods`, `deployments` and `services`.
    kinds: Option<String>,
    /// One namespace; all that can be seen unless told.
    namespace: Option<String>,
    /// A Kubernetes label selector.
    label_selector: Option<String>,
}

/// What one watch shows.
#[derive(Clone)]
pub struct Source {
    kind: &'static Kind,
    namespace: Option<String>,
    selector: Option<String>,
    /// How long one watch lasts, in seconds.
    lasts: u32,
}

/// What a source sends.
struct Message {
    source: String,
    version: String,
    event: &'static str,
    data: Arc<str>,
}

/// `GET /api/v1/stream`.
pub async fn follow(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = std::result::Result<Event, Infallible>>>> {
    check_namespace(wanted.namespace.as_deref())?;
    let mut reached = positions(headers.get("last-event-id").and_then(|id| id.to_str().ok()).unwrap_or_default());
    let (sender, receiver) = mpsc::channel(BUFFERED);
    let (sources, absent) = sources(&app, &caller, &wanted).await?;
    for kind in absent {
        // There is room: nothing else was sent yet.
        let _ = sender.try_send(Message::nothing(kind));
    }
    for source in sources {
        let from = reached.get(&source.name()).cloned();
        let (app, caller, sender) = (app.clone(), caller.clone(), sender.clone());
        tokio::spawn(async move { source.run(&app, &caller, from, &sender).await });
    }
    let events = ReceiverStream::new(receiver).map(move |message: Message| {
        reached.insert(message.source, message.version);
        Ok(Event::default().event(message.event).id(identifier(&reached)).data(message.data))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(app.streams.keep_alive)))
}

impl Message {
    /// Who waits for a kind must hear that there is nothing to wait for.
    fn nothing(kind: &Kind) -> Self {
        let data = json!({"kind": kind.plural, "namespace": null, "items": []});
        Self {
            source: kind.plural.to_owned(),
            version: String::new(),
            event: "snapshot",
            data: data.to_string().into(),
        }
    }
}

/// What to follow, and the kinds of which there is nothing for this caller: they may see none, or the dialect is not
/// installed here.
async fn sources(app: &App, caller: &Caller, wanted: &Wanted) -> Result<(Vec<Source>, Vec<&'static Kind>)> {
    let (mut sources, mut absent) = (Vec::new(), Vec::new());
    for kind in chosen(wanted.kinds.as_deref())? {
        let lasts = u32::try_from(app.streams.watch.as_secs()).unwrap_or(u32::MAX);
        let source =
            |namespace| Source { kind, namespace, selector: kind.selector(wanted.label_selector.as_deref()), lasts };
        if wanted.namespace.is_some() {
            sources.push(source(wanted.namespace.clone()));
            continue;
        }
        let everywhere =
            kind.api(&caller.client, None).list(&ListParams::default().limit(1)).await.map_err(Error::from);
        match everywhere {
            Ok(_) => sources.push(source(None)),
            Err(error) if error.is_forbidden() => {
                let visible = caller.namespaces(app, kind.access()).await?;
                if visible.is_empty() {
                    absent.push(kind);
                }
                sources.extend(visible.into_iter().map(|namespace| source(Some(namespace))));
            }
            Err(error) if error.is_not_found() => absent.push(kind),
            Err(error) => return Err(error),
        }
    }
    Ok((sources, absent))
}

fn chosen(kinds: Option<&str>) -> Result<Vec<&'static Kind>> {
    let Some(kinds) = kinds else { return Ok(KINDS.iter().collect()) };
    kinds
        .split(',')
        .map(|plural| {
            let part = || PARTS.iter().find(|kind| kind.plural == plural.trim());
            Kind::by_plural(plural.trim())
                .or_else(part)
                .ok_or_else(|| Error::bad_request(format!("kinds: there is no kind {plural:?}")))
        })
        .collect()
}

impl Source {
    fn name(&self) -> String {
        self.namespace
            .as_ref()
            .map_or(self.kind.plural.to_owned(), |namespace| format!("{}@{namespace}", self.kind.plural))
    }

    /// Sends until nobody listens. The API being away for a while is told once and then waited out.
    async fn run(&self, app: &App, caller: &Caller, mut from: Option<String>, sender: &mpsc::Sender<Message>) {
        let mut wait = Duration::from_millis(200);
        loop {
            let followed = self.follow_once(app, caller, &mut from, sender);
            let end = tokio::select! { Err(end) = followed => end, () = sender.closed() => return };
            match end {
                End::Lasted => wait = Duration::from_millis(200),
                End::Expired => from = None,
                End::Trouble(message) => {
                    let data = json!({"kind": self.kind.plural, "message": message});
                    self.send(sender, from.clone().unwrap_or_default(), "trouble", data.to_string().into()).await;
                    tokio::select! { () = tokio::time::sleep(wait) => {}, () = sender.closed() => return }
                    wait = (wait * 2).min(Duration::from_secs(10));
                }
            }
        }
    }

    async fn follow_once(
        &self,
        app: &App,
        caller: &Caller,
        from: &mut Option<String>,
        sender: &mpsc::Sender<Message>,
    ) -> std::result::Result<Infallible, End> {
        let objects = self.kind.api(&caller.client, self.namespace.as_deref());
        let resumed = from.is_some();
        let version = if let Some(version) = from.clone() {
            version
        } else {
            let parameters = ListParams { label_selector: self.selector.clone(), ..ListParams::default() };
            let list = objects.list(&parameters).await?;
            let version = list.metadata.resource_version.clone().unwrap_or_default();
            let items: Vec<Value> = list.items.iter().map(|object| (self.kind.view)(&value(object))).collect();
            let data = json!({"kind": self.kind.plural, "namespace": self.namespace, "items": items});
            self.send(sender, version.clone(), "snapshot", data.to_string().into()).await;
            version
        };
        let mut seat = app.watches.join(caller, self, shared::number(&version)?);
        *from = Some(version);
        if seat.shared && resumed {
            // The watch was judged when it began; who comes later is judged too.
            objects.list(&ListParams::default().limit(1)).await?;
        }
        loop {
            let change = seat.next().await?;
            *from = Some(change.version.to_string());
            if let Some(data) = change.data {
                self.send(sender, change.version.to_string(), "change", data).await;
            }
        }
    }

    async fn send(&self, sender: &mpsc::Sender<Message>, version: String, event: &'static str, data: Arc<str>) {
        // Nobody listening is noticed by the loop.
        let _ = sender.send(Message { source: self.name(), version, event, data }).await;
    }
}

/// `tasks=12,agents@team=7` → where each source was. Parts that make no sense begin anew.
fn positions(id: &str) -> BTreeMap<String, String> {
    let pairs = id.split(',').filter_map(|part| part.split_once('='));
    pairs
        // Version 0 would be a watch that shows old objects in any order.
        .filter(|(_, version)| shared::number(version).is_ok_and(|version| version > 0))
        .map(|(source, version)| (source.to_owned(), version.to_owned()))
        .collect()
}

fn identifier(reached: &BTreeMap<String, String>) -> String {
    reached
        .iter()
        .filter(|(_, version)| !version.is_empty())
        .map(|(source, version)| format!("{source}={version}"))
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_where_every_source_was() {
        let reached: BTreeMap<String, String> =
            [("tasks", "12"), ("agents@team", "7")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        assert_eq!(positions(&identifier(&reached)), reached);
        assert!(positions("tasks=;x\r\n=1,agents=-,pods=0,services=abc").is_empty());
    }
}
