//! Keeps the graph up to date: one metadata watch a kind, and a new look at the kinds whenever a definition changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::Key;
use engine::queue::Queue;
use futures::StreamExt;
use kube::ResourceExt;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::graph::{Graph, Item};
use crate::inventory::{Inventory, Kind, Metadata};

/// What the watches fill.
pub struct Feed {
    inventory: Arc<Inventory>,
    graph: Arc<Mutex<Graph>>,
    /// A definition changed: there may be new kinds.
    definitions: Notify,
}

impl Feed {
    pub(super) fn new(inventory: Arc<Inventory>, graph: Arc<Mutex<Graph>>) -> Self {
        Self { inventory, graph, definitions: Notify::new() }
    }
}

/// Watches every kind until told to stop.
pub async fn run(feed: Feed, queue: Arc<Queue>, stop: CancellationToken) {
    let feed = Arc::new(feed);
    let mut watches = JoinSet::new();
    let mut running: HashMap<String, CancellationToken> = HashMap::new();
    while !stop.is_cancelled() {
        match feed.inventory.refresh().await {
            Ok(()) => follow(&feed, &queue, &stop, &mut running, &mut watches),
            Err(error) => {
                tracing::warn!(error = %error.chain(), "cannot tell which kinds are served");
                feed.definitions.notify_one();
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = feed.definitions.notified() => {}
        }
    }
    while watches.join_next().await.is_some() {}
}

/// Starts the watches of new kinds and ends those of kinds that are gone.
fn follow(
    feed: &Arc<Feed>,
    queue: &Arc<Queue>,
    stop: &CancellationToken,
    running: &mut HashMap<String, CancellationToken>,
    watches: &mut JoinSet<()>,
) {
    let kinds = feed.inventory.all();
    let name = |kind: &Kind| format!("{}/{}", kind.resource.api_version, kind.resource.plural);
    let served: HashSet<String> = kinds.iter().map(|kind| name(kind)).collect();
    running.retain(|kind, watch| {
        let kept = served.contains(kind);
        if !kept {
            watch.cancel();
        }
        kept
    });
    for kind in kinds {
        running.entry(name(&kind)).or_insert_with(|| {
            let watch = stop.child_token();
            watches.spawn(watch_kind(Arc::clone(feed), kind, Arc::clone(queue), watch.clone()));
            watch
        });
    }
}

async fn watch_kind(feed: Arc<Feed>, kind: Arc<Kind>, queue: Arc<Queue>, stop: CancellationToken) {
    let api = feed.inventory.metadata_api(&kind, "");
    let mut events = watch(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = HashSet::new();
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => break,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => take(&feed, &kind, &queue, event, &mut listed),
            Some(Err(error)) => {
                tracing::debug!(
                    kind = kind.resource.kind,
                    error = &error as &dyn std::error::Error,
                    "watch interrupted"
                );
            }
            None => break,
        }
    }
    // Nobody tells us any more: what is not watched is asked for live.
    let touched = feed.graph.lock().keep_only(&kind, &HashSet::new());
    for uid in touched {
        queue.add(Key::new("", uid));
    }
}

fn take(feed: &Feed, kind: &Arc<Kind>, queue: &Queue, event: Event<Metadata>, listed: &mut HashSet<String>) {
    if kind.resource.kind == "CustomResourceDefinition" && !matches!(event, Event::Init | Event::InitDone) {
        feed.definitions.notify_one();
    }
    let touched = match event {
        Event::Init => {
            listed.clear();
            Vec::new()
        }
        Event::InitApply(object) => {
            listed.extend(object.uid());
            feed.graph.lock().put(Item::new(kind, &object))
        }
        Event::InitDone => feed.graph.lock().keep_only(kind, &std::mem::take(listed)),
        Event::Apply(object) => feed.graph.lock().put(Item::new(kind, &object)),
        Event::Delete(object) => feed.graph.lock().remove(&object.uid().unwrap_or_default()),
    };
    for uid in touched {
        queue.add(Key::new("", uid));
    }
}
