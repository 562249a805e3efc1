//! The line in front of the writer. Its length is bounded by its callers: each waits for the answer to its one request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use crate::{Change, Entry, WriteError};

pub(crate) type Answer = Result<Arc<Entry>, WriteError>;

#[derive(Debug)]
pub(crate) enum Request {
    Write(Change, oneshot::Sender<Answer>),
    /// Compacts all history.
    Compact(oneshot::Sender<Result<(), WriteError>>),
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
    arrived: Condvar,
    /// Told when the writer has stopped.
    stopped: Notify,
}

#[derive(Debug, Default)]
struct Line {
    requests: VecDeque<Request>,
    /// No more requests are taken in.
    closing: bool,
    /// The writer is gone, and why.
    stopped: Option<String>,
}

impl Queue {
    pub(crate) fn push(&self, request: Request) -> Result<(), WriteError> {
        let mut line = self.line.lock();
        if let Some(reason) = &line.stopped {
            return Err(WriteError::Stopped(reason.clone()));
        }
        if line.closing {
            return Err(WriteError::Stopped("it was closed".to_owned()));
        }
        line.requests.push_back(request);
        drop(line);
        self.arrived.notify_one();
        Ok(())
    }

    /// Everything that waits, up to `limit`, as soon as something does; nothing after `patience`; `None` when closed.
    pub(crate) fn take(&self, limit: usize, patience: Duration) -> Option<Vec<Request>> {
        let mut line = self.line.lock();
        if line.requests.is_empty() && !line.closing {
            self.arrived.wait_for(&mut line, patience);
        }
        if line.requests.is_empty() && line.closing {
            return None;
        }
        let count = line.requests.len().min(limit);
        Some(line.requests.drain(..count).collect())
    }

    /// Takes in nothing more; what waits is still done.
    pub(crate) fn close(&self) {
        self.line.lock().closing = true;
        self.arrived.notify_one();
    }

    /// The writer is gone: answers everyone who waits, and all who come.
    pub(crate) fn stop(&self, reason: &str) {
        let mut line = self.line.lock();
        line.stopped.get_or_insert_with(|| reason.to_owned());
        let requests = std::mem::take(&mut line.requests);
        drop(line);
        for request in requests {
            request.refuse(WriteError::Stopped(reason.to_owned()));
        }
        self.stopped.notify_waiters();
    }

    /// Waits until the writer is gone, and says why.
    pub(crate) async fn stopped(&self) -> String {
        loop {
            let mut told = std::pin::pin!(self.stopped.notified());
            told.as_mut().enable();
            if let Some(reason) = &self.line.lock().stopped {
                return reason.clone();
            }
            told.await;
        }
    }
}

impl Request {
    /// Answers with an error. A caller that went away is no concern.
    pub(crate) fn refuse(self, error: WriteError) {
        match self {
            Self::Write(_, reply) => drop(reply.send(Err(error))),
            Self::Compact(reply) => drop(reply.send(Err(error))),
        }
    }
}
