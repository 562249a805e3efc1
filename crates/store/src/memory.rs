//! What reads see: live objects in order, and the recent history.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::topic::Topic;
use crate::{Entry, Event, EventKind, Key, Options, Page, Paging, ReadError, Revision, Scope};

/// What an event costs in memory besides the values it keeps alive: itself, its place in three queues, two entries.
const EVENT_OVERHEAD: usize = 400;

#[derive(Debug)]
pub(crate) struct Memory {
    state: RwLock<State>,
    committed: Arc<AtomicU64>,
}

#[derive(Debug)]
struct State {
    revision: Revision,
    /// The oldest revision that can be read: history up to here is compacted.
    oldest: Revision,
    resources: HashMap<Arc<str>, Resource>,
    history: VecDeque<Record>,
    history_bytes: usize,
}

#[derive(Debug)]
struct Resource {
    live: BTreeMap<String, Arc<Entry>>,
    all: Arc<Topic>,
    namespaces: HashMap<String, Arc<Topic>>,
}

#[derive(Debug)]
struct Record {
    event: Arc<Event>,
    /// Milliseconds since the epoch.
    time: i64,
    bytes: usize,
}

/// A piece of history that may go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Compaction {
    /// History up to and including this revision.
    pub(crate) until: Revision,
    /// The versions that nothing needs any more.
    pub(crate) garbage: Vec<Revision>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The newest revision.
    pub revision: Revision,
    /// The oldest revision that can be read or watched from.
    pub oldest: Revision,
    /// Live objects.
    pub objects: usize,
    /// Changes in the history.
    pub history_events: usize,
    /// Bytes that only the history needs.
    pub history_bytes: usize,
}

impl Memory {
    pub(crate) fn new(revision: Revision, oldest: Revision) -> Self {
        Self {
            state: RwLock::new(State {
                revision,
                oldest,
                resources: HashMap::new(),
                history: VecDeque::new(),
                history_bytes: 0,
            }),
            committed: Arc::new(AtomicU64::new(revision.0)),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision(self.committed.load(Ordering::Acquire))
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        let path = key.path();
        let state = self.state.read();
        state.resources.get(&key.resource)?.live.get(&path).cloned()
    }

    pub(crate) fn list(&self, scope: &Scope, paging: &Paging) -> Result<Page, ReadError> {
        let state = self.state.read();
        let revision = paging.at.unwrap_or(state.revision);
        state.check(revision)?;
        let limit = paging.limit.unwrap_or(usize::MAX);
        let (entries, remaining) = match (state.resources.get(&scope.resource), bounds(scope, paging)) {
            (Some(resource), Some(bounds)) if revision == state.revision => resource.list(bounds, limit),
            (Some(resource), Some(bounds)) => resource.list_at(revision, scope, bounds, limit),
            _ => (Vec::new(), 0),
        };
        Ok(Page { entries, revision, remaining })
    }

    /// The topic of a scope, to be followed from `after`.
    pub(crate) fn follow(&self, scope: &Scope, after: Revision) -> Result<(Arc<Topic>, Arc<AtomicU64>), ReadError> {
        let mut state = self.state.write();
        state.check(after)?;
        let oldest = state.oldest;
        let resource = state.resource(&scope.resource);
        let topic = match scope.namespace.as_deref() {
            None | Some("") => resource.all.clone(),
            Some(namespace) => resource.topic(namespace, oldest),
        };
        Ok((topic, self.committed.clone()))
    }

    /// Makes committed changes visible, all at once. The topics returned must be notified.
    pub(crate) fn apply(&self, events: &[Arc<Event>], time: i64) -> Vec<Arc<Topic>> {
        let mut topics: Vec<Arc<Topic>> = Vec::new();
        let mut state = self.state.write();
        for event in events {
            for topic in state.apply(event, time).into_iter().flatten() {
                if !topics.iter().any(|known| Arc::ptr_eq(known, &topic)) {
                    topics.push(topic);
                }
            }
        }
        self.committed.store(state.revision.0, Ordering::Release);
        topics
    }

    /// Takes in a version that has no history any more (only while loading).
    pub(crate) fn restore(&self, entry: Arc<Entry>) {
        let mut state = self.state.write();
        let path = entry.key.path();
        let resource = state.resource(&entry.key.resource.clone());
        resource.live.insert(path, entry);
    }

    /// The history that exceeds the limits at `now`, at most `step` events of it.
    pub(crate) fn overdue(&self, limits: &Options, now: i64, step: usize) -> Option<Compaction> {
        let state = self.state.read();
        state.compaction(state.excess(limits, now).min(step))
    }

    /// All history, at most `step` events of it.
    pub(crate) fn compactable(&self, step: usize) -> Option<Compaction> {
        let state = self.state.read();
        state.compaction(state.history.len().min(step))
    }

    /// Drops history after it is gone on disk.
    pub(crate) fn forget(&self, until: Revision) {
        let mut state = self.state.write();
        state.oldest = state.oldest.max(until);
        while state.history.front().is_some_and(|record| record.event.revision() <= until) {
            let Some(record) = state.history.pop_front() else {
                break;
            };
            state.history_bytes -= record.bytes;
            let key = &record.event.entry.key;
            if let Some(resource) = state.resources.get(&key.resource) {
                resource.all.drop_until(until);
                if let Some(topic) = resource.namespaces.get(&key.namespace) {
                    topic.drop_until(until);
                }
            }
        }
        if state.history.len() < state.history.capacity() / 4 {
            state.history.shrink_to_fit();
        }
    }

    /// Frees topics that have neither events nor watches.
    pub(crate) fn sweep(&self) {
        let mut state = self.state.write();
        for resource in state.resources.values_mut() {
            resource.namespaces.retain(|_, topic| Arc::strong_count(topic) > 1 || !topic.is_empty());
        }
    }

    /// Ends all watches, after they have read what is there.
    pub(crate) fn close(&self) {
        let state = self.state.read();
        for resource in state.resources.values() {
            resource.all.close();
            resource.namespaces.values().for_each(|topic| topic.close());
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.read();
        Stats {
            revision: state.revision,
            oldest: state.oldest,
            objects: state.resources.values().map(|one| one.live.len()).sum(),
            history_events: state.history.len(),
            history_bytes: state.history_bytes,
        }
    }
}

impl State {
    fn check(&self, requested: Revision) -> Result<(), ReadError> {
        if requested < self.oldest {
            let oldest = self.oldest;
            return Err(ReadError::Expired { requested, oldest });
        }
        if requested > self.revision {
            let current = self.revision;
            return Err(ReadError::Future { requested, current });
        }
        Ok(())
    }

    fn resource(&mut self, name: &Arc<str>) -> &mut Resource {
        let oldest = self.oldest;
        self.resources.entry(name.clone()).or_insert_with(|| Resource {
            live: BTreeMap::new(),
            all: Topic::new(oldest),
            namespaces: HashMap::new(),
        })
    }

    fn apply(&mut self, event: &Arc<Event>, time: i64) -> [Option<Arc<Topic>>; 2] {
        let key = &event.entry.key;
        let oldest = self.oldest;
        let resource = self.resource(&key.resource);
        match event.kind {
            EventKind::Deleted => resource.live.remove(&key.path()),
            EventKind::Added | EventKind::Modified => resource.live.insert(key.path(), event.entry.clone()),
        };
        let topics =
            [Some(resource.all.clone()), (!key.namespace.is_empty()).then(|| resource.topic(&key.namespace, oldest))];
        for topic in topics.iter().flatten() {
            topic.push(event.clone());
        }
        let bytes = cost(event);
        self.history_bytes += bytes;
        self.history.push_back(Record { event: event.clone(), time, bytes });
        self.revision = event.revision();
        topics
    }

    /// How many events at the front exceed the limits. A limit that is reached frees a quarter, so that compaction is
    /// rare and does much at a time.
    fn excess(&self, limits: &Options, now: i64) -> usize {
        let mut count = 0;
        if self.history.len() > limits.history_events {
            count = self.history.len() - limits.history_events / 4 * 3;
        }
        if self.history_bytes > limits.history_bytes {
            let mut bytes = self.history_bytes;
            let enough = self.history.iter().position(|record| {
                let done = bytes <= limits.history_bytes / 4 * 3;
                bytes -= record.bytes;
                done
            });
            count = count.max(enough.unwrap_or(self.history.len()));
        }
        let age = i64::try_from(limits.history_age.as_millis()).unwrap_or(i64::MAX);
        let old = |record: &Record, age: i64| now.saturating_sub(record.time) > age;
        if self.history.front().is_some_and(|record| old(record, age)) {
            let fresh = self.history.partition_point(|record| old(record, age / 4 * 3));
            count = count.max(fresh);
        }
        count
    }

    fn compaction(&self, count: usize) -> Option<Compaction> {
        let last = self.history.get(count.checked_sub(1)?)?;
        let mut garbage = Vec::with_capacity(count);
        for Record { event, .. } in self.history.range(..count) {
            garbage.extend(event.previous.as_ref().map(|previous| previous.revision));
            if event.kind == EventKind::Deleted {
                garbage.push(event.revision());
            }
        }
        Some(Compaction { until: last.event.revision(), garbage })
    }
}

type Bounds = (Bound<String>, Bound<String>);

impl Resource {
    fn topic(&mut self, namespace: &str, oldest: Revision) -> Arc<Topic> {
        if let Some(topic) = self.namespaces.get(namespace) {
            return topic.clone();
        }
        let topic = Topic::new(oldest);
        self.namespaces.insert(namespace.to_owned(), topic.clone());
        topic
    }

    fn list(&self, bounds: Bounds, limit: usize) -> (Vec<Arc<Entry>>, usize) {
        let mut range = self.live.range(bounds).map(|(_, entry)| entry);
        let entries = range.by_ref().take(limit).cloned().collect();
        (entries, range.count())
    }

    /// The list as it was: what is live, with every later change taken back.
    fn list_at(&self, revision: Revision, scope: &Scope, bounds: Bounds, limit: usize) -> (Vec<Arc<Entry>>, usize) {
        let topic = match scope.namespace.as_deref() {
            None | Some("") => Some(&self.all),
            Some(namespace) => self.namespaces.get(namespace),
        };
        let mut then: BTreeMap<String, Option<Arc<Entry>>> = BTreeMap::new();
        if let Some(topic) = topic {
            topic.undo(revision, |event| {
                then.insert(event.entry.key.path(), event.previous.clone());
            });
        }
        if then.is_empty() {
            return self.list(bounds, limit);
        }
        let mut entries: BTreeMap<&str, &Arc<Entry>> =
            self.live.range(bounds.clone()).map(|(path, entry)| (path.as_str(), entry)).collect();
        for (path, entry) in then.range(bounds) {
            match entry {
                Some(entry) => entries.insert(path, entry),
                None => entries.remove(path.as_str()),
            };
        }
        let total = entries.len();
        let entries: Vec<_> = entries.into_values().take(limit).cloned().collect();
        let remaining = total - entries.len();
        (entries, remaining)
    }
}

/// The range of paths that a page covers, or nothing when it lies outside of the scope.
fn bounds(scope: &Scope, paging: &Paging) -> Option<Bounds> {
    let (first, end) = match &scope.namespace {
        // '0' is the character after '/'.
        Some(namespace) if !namespace.is_empty() => (Some(format!("{namespace}/")), Some(format!("{namespace}0"))),
        _ => (None, None),
    };
    let after = paging.after.as_ref().map(|(namespace, name)| Key::new("", namespace.as_str(), name.as_str()).path());
    if let (Some(after), Some(end)) = (&after, &end)
        && after >= end
    {
        return None;
    }
    let start = match (first, after) {
        (Some(first), Some(after)) if after < first => Bound::Included(first),
        (_, Some(after)) => Bound::Excluded(after),
        (Some(first), None) => Bound::Included(first),
        (None, None) => Bound::Unbounded,
    };
    Some((start, end.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// The bytes that only history keeps.
fn cost(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |entry| entry.value.len());
    let deleted = match event.kind {
        EventKind::Deleted => event.entry.value.len(),
        EventKind::Added | EventKind::Modified => 0,
    };
    EVENT_OVERHEAD + previous + deleted
}
