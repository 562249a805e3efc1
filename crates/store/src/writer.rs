//! The one writer: takes all waiting requests, commits them together, then shows them to readers and answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::disk::{Disk, Failure};
use crate::memory::Memory;
use crate::queue::{Answer, Queue, Request};
use crate::{Action, Change, Draft, Entry, Event, EventKind, Expect, Key, Options, Revision, WriteError};

/// Requests in one transaction: enough that syncing does not matter, few enough that nobody waits long.
const BATCH: usize = 512;
/// History events dropped in one transaction, at least.
const COMPACTION_STEP: usize = 256;
/// How often age is looked at when nothing is written.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing must have been written before work that would keep a writer waiting is begun.
const LULL: Duration = Duration::from_millis(100);

pub(crate) struct Writer {
    pub(crate) disk: Disk,
    pub(crate) memory: Arc<Memory>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) options: Options,
}

type Write = (Change, oneshot::Sender<Answer>);

impl Writer {
    /// Works until the queue is closed or the disk fails. Returns why.
    pub(crate) fn run(mut self) -> String {
        let patience = PATIENCE.min(self.options.history_age / 4 + Duration::from_millis(1));
        loop {
            let patience = if self.disk.wants_checkpoint() { LULL } else { patience };
            let Some(requests) = self.queue.take(BATCH, patience) else { break };
            let idle = requests.is_empty();
            let done = self.serve(requests).and_then(|step| self.tidy(step));
            if let Err(reason) = done {
                tracing::error!(%reason, "the store stops: what is on disk is in doubt until it is opened again");
                self.disk.abandon();
                return reason;
            }
            if idle {
                self.memory.sweep();
            }
        }
        "it was closed".to_owned()
    }

    /// Serves requests; returns how many there were, or why the store must stop.
    fn serve(&mut self, requests: Vec<Request>) -> Result<usize, String> {
        let count = requests.len();
        let mut writes = Vec::with_capacity(count);
        let mut compactions = Vec::new();
        for request in requests {
            match request {
                // Whoever does not wait any more was promised nothing.
                Request::Write(_, reply) if reply.is_closed() => {}
                Request::Write(change, reply) => writes.push((change, reply)),
                Request::Compact(reply) => compactions.push(reply),
            }
        }
        self.commit(writes)?;
        for reply in compactions {
            let done = self.compact_all()?;
            drop(reply.send(done));
        }
        Ok(count)
    }

    fn commit(&mut self, writes: Vec<Write>) -> Result<(), String> {
        let batch = Batch::judge(&self.memory, &writes);
        let mut topics = Vec::new();
        if !batch.events.is_empty() {
            let time = now();
            if let Err(failure) = self.append(&batch.events, time) {
                return self.refuse(writes, failure);
            }
            topics = self.memory.apply(&batch.events, time);
        }
        // Readers see it already. Writers are woken before watchers, of whom there may be many in line for the same cores.
        for ((_, reply), answer) in writes.into_iter().zip(batch.answers) {
            drop(reply.send(answer));
        }
        for topic in topics {
            topic.changed.notify_waiters();
        }
        Ok(())
    }

    /// Appends; on a full disk tries once more after freeing what the write-ahead log holds.
    fn append(&mut self, events: &[Arc<Event>], time: i64) -> Result<(), Failure> {
        match self.disk.append(events, time) {
            Err(Failure::Full(reason)) => match self.disk.checkpoint() {
                Ok(()) => self.disk.append(events, time),
                Err(Failure::Fatal(reason)) => Err(Failure::Fatal(reason)),
                Err(_) => Err(Failure::Full(reason)),
            },
            done => done,
        }
    }

    /// Nothing of the batch happened. A condition that does not hold by itself is still the better answer.
    fn refuse(&mut self, writes: Vec<Write>, failure: Failure) -> Result<(), String> {
        let (error, fatal) = match failure {
            Failure::Full(reason) => (WriteError::Full(reason), None),
            Failure::Refused(reason) => (WriteError::Refused(reason), None),
            Failure::Fatal(reason) => (WriteError::Stopped(reason.clone()), Some(reason)),
        };
        tracing::warn!(%error, writes = writes.len(), "a batch was not written");
        for (change, reply) in writes {
            let answer = match judge(&change, self.memory.get(&change.key).as_ref()) {
                Err(conflict) if fatal.is_none() => Err(conflict),
                _ => Err(error.clone()),
            };
            drop(reply.send(answer));
        }
        fatal.map_or(Ok(()), Err)
    }

    /// What nobody waits for: compaction, as fast as history grows, and copying the write-ahead log.
    fn tidy(&mut self, written: usize) -> Result<(), String> {
        let step = COMPACTION_STEP.max(written * 2);
        if let Some(compaction) = self.memory.overdue(&self.options, now(), step) {
            match self.disk.compact(&compaction) {
                Ok(()) => self.memory.forget(compaction.until),
                Err(failure) => tolerate("compaction", failure)?,
            }
        }
        self.disk.checkpoint_when_due(written == 0).or_else(|failure| tolerate("checkpoint", failure))
    }

    fn compact_all(&mut self) -> Result<Result<(), WriteError>, String> {
        while let Some(compaction) = self.memory.compactable(COMPACTION_STEP) {
            match self.disk.compact(&compaction) {
                Ok(()) => self.memory.forget(compaction.until),
                Err(Failure::Fatal(reason)) => return Err(reason),
                Err(Failure::Full(reason)) => return Ok(Err(WriteError::Full(reason))),
                Err(Failure::Refused(reason)) => return Ok(Err(WriteError::Refused(reason))),
            }
        }
        Ok(Ok(()))
    }
}

/// Tidying that did not work is tried again with the next write, unless the disk failed.
fn tolerate(what: &str, failure: Failure) -> Result<(), String> {
    match failure {
        Failure::Full(reason) | Failure::Refused(reason) => {
            tracing::warn!(%reason, "{what} has to wait");
            Ok(())
        }
        Failure::Fatal(reason) => Err(reason),
    }
}

/// Changes that are decided but not yet durable.
#[derive(Default)]
struct Batch {
    events: Vec<Arc<Event>>,
    answers: Vec<Answer>,
}

impl Batch {
    /// Decides each change on top of those before it.
    fn judge(memory: &Memory, writes: &[Write]) -> Self {
        let mut batch = Self::default();
        let mut revision = memory.revision();
        let mut pending: HashMap<&Key, Option<Arc<Entry>>> = HashMap::new();
        for (change, _) in writes {
            let current = match pending.get(&change.key) {
                Some(entry) => entry.clone(),
                None => memory.get(&change.key),
            };
            let answer = judge(change, current.as_ref()).map(|draft| {
                revision = Revision(revision.0 + 1);
                Arc::new(Entry { key: change.key.clone(), revision, value: draft.at(revision) })
            });
            if let Ok(entry) = &answer {
                let event = event(change, entry.clone(), current);
                let live = (event.kind != EventKind::Deleted).then(|| entry.clone());
                pending.insert(&change.key, live);
                batch.events.push(Arc::new(event));
            }
            batch.answers.push(answer);
        }
        batch
    }
}

/// Whether the change may happen, given what is there.
fn judge<'a>(change: &'a Change, current: Option<&Arc<Entry>>) -> Result<&'a Draft, WriteError> {
    match (change.expect, current) {
        (Expect::Absent, Some(entry)) => return Err(WriteError::Exists(entry.clone())),
        (Expect::At(revision), current) if current.is_none_or(|entry| entry.revision != revision) => {
            return Err(WriteError::Changed(current.cloned()));
        }
        _ => {}
    }
    match (&change.action, current) {
        (Action::Delete(_), None) => Err(WriteError::Changed(None)),
        (Action::Put(draft) | Action::Delete(draft), _) => Ok(draft),
    }
}

fn event(change: &Change, entry: Arc<Entry>, previous: Option<Arc<Entry>>) -> Event {
    let kind = match (&change.action, &previous) {
        (Action::Delete(_), _) => EventKind::Deleted,
        (Action::Put(_), Some(_)) => EventKind::Modified,
        (Action::Put(_), None) => EventKind::Added,
    };
    Event { kind, entry, previous }
}

/// Milliseconds since the epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
