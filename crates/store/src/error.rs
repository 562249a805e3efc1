//! What can go wrong, in the words that a user of the data directory reads.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Entry, Revision};

/// Why a store could not be opened. None of these touches the file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is in use by {holder}; stop that process or choose another data directory", path.display())]
    Held {
        /// The store's file.
        path: PathBuf,
        /// Process id and since when, as the holder wrote it.
        holder: String,
    },
    /// It is a file of something else.
    #[error("{} is not an Orrery store ({detail}); it was left as it is, move it away or choose another data directory", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        detail: String,
    },
    /// It was written by a later release.
    #[error("{} has format {found}, this release reads up to {supported}; it was left as it is, use the release that wrote it", path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// The format in the file.
        found: i64,
        /// The newest format this release knows.
        supported: i64,
    },
    /// It is damaged.
    #[error("{} is damaged ({detail}); it was left as it is, restore it from a backup", path.display())]
    Corrupted {
        /// The store's file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The file system refused.
    #[error("failed to open {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The database engine refused.
    #[error("failed to open {}", path.display())]
    Database {
        /// The store's file.
        path: PathBuf,
        /// What the engine said.
        #[source]
        source: rusqlite::Error,
    },
}

/// Why a change was not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// [`Expect::Absent`](crate::Expect::Absent), but it is there.
    #[error("{} exists at revision {}", .0.key, .0.revision)]
    Exists(Arc<Entry>),
    /// [`Expect::At`](crate::Expect::At), but it has another revision or is gone.
    #[error("the object changed since it was read")]
    Changed(Option<Arc<Entry>>),
    /// No space. Nothing was written; the same write works when there is space again.
    #[error("the disk of the store is full: {0}")]
    Full(String),
    /// The system refused the write. Nothing was written; the next one may work.
    #[error("the store could not be written: {0}")]
    Refused(String),
    /// The store does not write any more: the disk lost data, or it was closed. Whether this write is there will only
    /// be known after a restart.
    #[error("the store has stopped: {0}")]
    Stopped(String),
}

/// Why a moment cannot be read or watched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Its history was compacted away.
    #[error("revision {requested} is too old, history starts at {oldest}")]
    Expired {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision that still works.
        oldest: Revision,
    },
    /// It is not there yet (a revision of another store).
    #[error("revision {requested} is in the future, the store is at {current}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest revision there is.
        current: Revision,
    },
}

/// Why a watch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnded {
    /// It was too slow: what it had not read yet was compacted away.
    #[error("the watch fell behind, history starts at {oldest}")]
    Expired {
        /// The oldest revision that still works.
        oldest: Revision,
    },
    /// The store was closed.
    #[error("the store was closed")]
    Closed,
}
