//! Following the changes of a scope.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::topic::Topic;
use crate::{Event, Revision, WatchEnded};

/// So much is handed over at once; more waits in the shared history.
const BATCH: usize = 256;

/// A place in the changes of a scope: a cursor and nothing else, so ten thousand of them cost next to nothing.
///
/// One that falls behind the history kept by the store ends with [`WatchEnded::Expired`].
#[derive(Debug)]
pub struct Watch {
    topic: Arc<Topic>,
    /// The newest committed revision of the store.
    committed: Arc<AtomicU64>,
    cursor: Revision,
}

impl Watch {
    pub(crate) fn new(topic: Arc<Topic>, committed: Arc<AtomicU64>, after: Revision) -> Self {
        Self { topic, committed, cursor: after }
    }

    /// Waits for the next events: at least one, in order, each exactly once. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, WatchEnded> {
        loop {
            let mut changed = pin!(self.topic.changed.notified());
            // Listening before reading: a change in between wakes us.
            changed.as_mut().enable();
            let events = self.topic.read(self.cursor, BATCH)?;
            if let Some(last) = events.last() {
                self.cursor = last.revision();
                return Ok(events);
            }
            changed.await;
        }
    }

    /// The revision up to which this watch has seen everything there is for it: right for a bookmark.
    pub fn progress(&self) -> Revision {
        // Read first: an event up to this revision is in the topic by now.
        let committed = Revision(self.committed.load(Ordering::Acquire));
        if self.topic.is_read(self.cursor) { self.cursor.max(committed) } else { self.cursor }
    }
}
