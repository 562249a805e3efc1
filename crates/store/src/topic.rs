//! The recent events of one scope. Watches read them from here at their own pace, so a watch needs no buffer of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Event, Revision, WatchEnded};

#[derive(Debug)]
pub(crate) struct Topic {
    ring: Mutex<Ring>,
    pub(crate) changed: Notify,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    /// Events up to here may be missing.
    dropped: Revision,
    closed: bool,
}

impl Topic {
    pub(crate) fn new(dropped: Revision) -> Arc<Self> {
        Arc::new(Self {
            ring: Mutex::new(Ring { events: VecDeque::new(), dropped, closed: false }),
            changed: Notify::new(),
        })
    }

    pub(crate) fn push(&self, event: Arc<Event>) {
        self.ring.lock().events.push_back(event);
    }

    /// Forgets events up to and including `revision`.
    pub(crate) fn drop_until(&self, revision: Revision) {
        let mut ring = self.ring.lock();
        while ring.events.front().is_some_and(|event| event.revision() <= revision) {
            let dropped = ring.events.pop_front().map(|event| event.revision());
            ring.dropped = dropped.unwrap_or(ring.dropped);
        }
        if ring.events.capacity() > 64 && ring.events.len() < ring.events.capacity() / 4 {
            ring.events.shrink_to_fit();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.lock().events.is_empty()
    }

    pub(crate) fn close(&self) {
        self.ring.lock().closed = true;
        self.changed.notify_waiters();
    }

    /// Up to `limit` events after `cursor`.
    pub(crate) fn read(&self, cursor: Revision, limit: usize) -> Result<Vec<Arc<Event>>, WatchEnded> {
        let ring = self.ring.lock();
        if cursor < ring.dropped {
            return Err(WatchEnded::Expired { oldest: ring.dropped });
        }
        let events: Vec<_> = ring.after(cursor).take(limit).cloned().collect();
        if events.is_empty() && ring.closed {
            return Err(WatchEnded::Closed);
        }
        Ok(events)
    }

    /// Whether there is nothing after `cursor`.
    pub(crate) fn is_read(&self, cursor: Revision) -> bool {
        self.ring.lock().after(cursor).next().is_none()
    }

    /// Calls `visit` for each event after `revision`, the newest first.
    pub(crate) fn undo(&self, revision: Revision, mut visit: impl FnMut(&Event)) {
        let ring = self.ring.lock();
        for event in ring.after(revision).rev() {
            visit(event);
        }
    }
}

impl Ring {
    fn after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|event| event.revision() <= revision);
        self.events.range(start..)
    }
}
