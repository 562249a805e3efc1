//! Watches that streams share: one for each user, kind, namespace and selector, however many pages are open.
//!
//! The Kubernetes API judges every watch as its user's, so nobody hears by another's rights. A watch keeps its last
//! events: who joins it from a version that it has seen gets what came since, and loses and repeats nothing. Who comes
//! from an earlier version begins a watch of their own, which the next to come may share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use futures::{StreamExt as _, TryStreamExt as _};
use kube::Client;
use kube::api::{WatchEvent, WatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Source;
use crate::caller::{Caller, User};
use crate::resources::value;

/// So many events a watch keeps, and a stream may be behind.
const RECENT: usize = 256;

/// Who watches what.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    user: User,
    plural: &'static str,
    namespace: Option<String>,
    selector: Option<String>,
}

/// One event, made once for all.
#[derive(Clone, Debug)]
pub struct Change {
    pub version: u64,
    /// What the streams send; nothing when only the version moved.
    pub data: Option<Arc<str>>,
}

/// Why a watch is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its time had come: another goes on.
    Lasted,
    /// The version is no longer kept.
    Expired,
    /// The API said this, or is away.
    Trouble(String),
}

impl From<kube::Error> for End {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 410 => Self::Expired,
            error => Self::Trouble(error.to_string()),
        }
    }
}

/// All watches that somebody listens to.
#[derive(Default)]
pub struct Watches(Mutex<HashMap<Key, Weak<Watch>>>);

/// One watch. It ends with its last listener.
struct Watch {
    recent: Mutex<Recent>,
    _task: DropGuard,
}

struct Recent {
    /// Everything after this version is in `events`, or was until they were full.
    floor: u64,
    events: VecDeque<Change>,
    /// Gone when the watch is over.
    news: Option<broadcast::Sender<Change>>,
    end: End,
}

/// A place at a watch.
pub struct Seat {
    watch: Arc<Watch>,
    news: broadcast::Receiver<Change>,
    missed: VecDeque<Change>,
    reached: u64,
    /// Whether others sat here before, so that the API has not been asked for this one.
    pub shared: bool,
}

impl Watches {
    /// Everything after this version, with others if that can be.
    pub fn join(&self, caller: &Caller, source: &Source, from: u64) -> Seat {
        let key = Key {
            user: caller.user.clone(),
            plural: source.kind.plural,
            namespace: source.namespace.clone(),
            selector: source.selector.clone(),
        };
        let mut watches = self.0.lock();
        let there = watches.get(&key).and_then(Weak::upgrade).and_then(|watch| watch.seat(from));
        there.unwrap_or_else(|| {
            watches.retain(|_, watch| watch.strong_count() > 0);
            let seat = Watch::begin(caller, source.clone(), from);
            watches.insert(key, Arc::downgrade(&seat.watch));
            seat
        })
    }
}

impl Watch {
    fn begin(caller: &Caller, source: Source, from: u64) -> Seat {
        let (sender, news) = broadcast::channel(RECENT);
        let stop = CancellationToken::new();
        let recent = Recent { floor: from, events: VecDeque::new(), news: Some(sender), end: End::Lasted };
        let watch = Arc::new(Self { recent: Mutex::new(recent), _task: stop.clone().drop_guard() });
        let (client, listened) = (caller.client.clone(), Arc::downgrade(&watch));
        tokio::spawn(async move {
            let hear = |change| {
                if let Some(watch) = listened.upgrade() {
                    watch.recent.lock().add(change);
                }
            };
            let end = stop.run_until_cancelled(follow(&client, &source, from, hear)).await;
            if let (Some(end), Some(watch)) = (end, listened.upgrade()) {
                let mut recent = watch.recent.lock();
                recent.end = end.err().unwrap_or(End::Lasted);
                recent.news = None;
            }
        });
        Seat { watch, news, missed: VecDeque::new(), reached: from, shared: false }
    }

    /// A place for one who comes from this version; none when that is too long ago, or the watch is over.
    fn seat(self: Arc<Self>, from: u64) -> Option<Seat> {
        let recent = self.recent.lock();
        let news = recent.news.as_ref().filter(|_| from >= recent.floor)?.subscribe();
        let missed = recent.events.iter().filter(|change| change.version > from).cloned().collect();
        drop(recent);
        Some(Seat { watch: self, news, missed, reached: from, shared: true })
    }
}

impl Recent {
    fn add(&mut self, change: Change) {
        if change.data.is_some() {
            if self.events.len() == RECENT
                && let Some(first) = self.events.pop_front()
            {
                self.floor = first.version;
            }
            self.events.push_back(change.clone());
        }
        if let Some(news) = &self.news {
            // Whoever listened has left: the watch is about to end.
            let _ = news.send(change);
        }
    }
}

impl Seat {
    /// The next event; an error when the watch is over, or was too fast for this listener.
    pub async fn next(&mut self) -> Result<Change, End> {
        loop {
            let change = match self.missed.pop_front() {
                Some(change) => change,
                None => match self.news.recv().await {
                    Ok(change) => change,
                    Err(broadcast::error::RecvError::Lagged(_)) => return Err(End::Lasted),
                    Err(broadcast::error::RecvError::Closed) => return Err(self.watch.recent.lock().end.clone()),
                },
            };
            // A list may have been newer than what the watch had got to.
            if change.version > self.reached {
                self.reached = change.version;
                return Ok(change);
            }
        }
    }
}

async fn follow(client: &Client, source: &Source, from: u64, hear: impl Fn(Change)) -> Result<(), End> {
    let objects = source.kind.api(client, source.namespace.as_deref());
    let parameters =
        WatchParams { label_selector: source.selector.clone(), timeout: Some(source.lasts), ..WatchParams::default() };
    let mut events = objects.watch(&parameters, &from.to_string()).await?.boxed();
    while let Some(event) = events.try_next().await? {
        let (name, object) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(bookmark) => {
                hear(Change { version: number(&bookmark.metadata.resource_version)?, data: None });
                continue;
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        };
        let version = number(object.metadata.resource_version.as_deref().unwrap_or_default())?;
        let kind = source.kind;
        let data = json!({"kind": kind.plural, "type": name, "object": (kind.view)(&value(&object))});
        hear(Change { version, data: Some(Arc::from(data.to_string())) });
    }
    Ok(())
}

/// Kubernetes promises that versions of a kind are numbers that grow.
pub fn number(version: &str) -> Result<u64, End> {
    version.parse().map_err(|_| End::Trouble(format!("resourceVersion {version:?} is not a number")))
}
