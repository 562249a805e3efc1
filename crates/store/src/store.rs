//! The handle that everyone else uses.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::holder::Holder;
use crate::memory::{Memory, Stats};
use crate::queue::{Queue, Request};
use crate::writer::Writer;
use crate::{
    Change, Entry, Key, OpenError, Options, Page, Paging, ReadError, Revision, Scope, Watch, WriteError, disk,
};

/// A store, open in this process. Clones share it; the last one closes it.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    memory: Arc<Memory>,
    queue: Arc<Queue>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in the file `path`, or makes a new one when there is no such file.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let holder = Holder::take(path)?;
        let (disk, memory) = disk::open(path)?;
        let memory = Arc::new(memory);
        let queue = Arc::new(Queue::default());
        let writer = Writer { disk, memory: memory.clone(), queue: queue.clone(), options };
        let end = End { memory: memory.clone(), queue: queue.clone(), reason: "the writer failed".to_owned() };
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                let _holder = holder;
                let mut end = end;
                end.reason = writer.run();
            })
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { inner: Arc::new(Inner { memory, queue, writer: Mutex::new(Some(thread)) }) })
    }

    /// The newest version of an object.
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.inner.memory.get(key)
    }

    /// The objects of a scope at one moment.
    pub fn list(&self, scope: &Scope, paging: &Paging) -> Result<Page, ReadError> {
        self.inner.memory.list(scope, paging)
    }

    /// Makes a change when its condition holds. What this returns survives `kill -9` and power loss.
    ///
    /// A caller that drops the future does not learn whether the change was made.
    pub async fn write(&self, change: Change) -> Result<Arc<Entry>, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.inner.queue.push(Request::Write(change, reply))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Follows the changes of a scope after a revision, usually that of a list.
    pub fn watch(&self, scope: &Scope, after: Revision) -> Result<Watch, ReadError> {
        let (topic, committed) = self.inner.memory.follow(scope, after)?;
        Ok(Watch::new(topic, committed, after))
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        self.inner.memory.revision()
    }

    /// How much there is.
    pub fn stats(&self) -> Stats {
        self.inner.memory.stats()
    }

    /// Drops all history now; reads before the newest revision are [`ReadError::Expired`] afterwards.
    pub async fn compact(&self) -> Result<(), WriteError> {
        let (reply, answer) = oneshot::channel();
        self.inner.queue.push(Request::Compact(reply))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Finishes what waits, ends all watches and gives the file back. Reads still work.
    pub async fn close(&self) {
        self.inner.queue.close();
        self.inner.queue.stopped().await;
        self.inner.join();
    }

    /// Waits until the store has stopped and says why: after [`Store::close`], or when the disk failed and nothing more
    /// can be promised. A process should then end.
    pub async fn stopped(&self) -> String {
        self.inner.queue.stopped().await
    }
}

impl Inner {
    fn join(&self) {
        if let Some(thread) = self.writer.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
        self.join();
    }
}

/// Tells everyone that the writer is gone, even when it panicked.
struct End {
    memory: Arc<Memory>,
    queue: Arc<Queue>,
    reason: String,
}

impl Drop for End {
    fn drop(&mut self) {
        self.queue.stop(&self.reason);
        self.memory.close();
    }
}

fn gone() -> WriteError {
    WriteError::Stopped("the writer is gone".to_owned())
}
