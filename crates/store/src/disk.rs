//! The log on disk: one SQLite table of versions, appended to and compacted in transactions that are synced.

use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi, params};

use crate::memory::Compaction;
use crate::{Event, EventKind};

pub(crate) mod format;
mod load;

pub(crate) use load::open;

/// Pages in the write-ahead log after which it is copied into the database as soon as nobody writes.
const CHECKPOINT_PAGES: usize = 1000;
/// Pages after which it is copied however many wait.
const CHECKPOINT_LIMIT: usize = 4000;
const PAGE: usize = 4096;

/// Why the disk did not take something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No space; nothing was written.
    Full(String),
    /// Refused; nothing was written.
    Refused(String),
    /// What was written may be lost: nothing more may be promised.
    Fatal(String),
}

#[derive(Debug)]
pub(crate) struct Disk {
    connection: Connection,
    /// Pages written since the last checkpoint, estimated.
    pages: usize,
}

impl Disk {
    /// Writes versions in one transaction. When it returns they survive power loss.
    pub(crate) fn append(&mut self, events: &[Arc<Event>], time: i64) -> Result<(), Failure> {
        let bytes: usize = events.iter().map(|event| event.entry.value.len() + 200).sum();
        self.pages += 2 + bytes.div_ceil(PAGE);
        self.transaction(|connection| {
            let mut insert = connection.prepare_cached(format::INSERT)?;
            for event in events {
                let entry = &event.entry;
                let deleted = event.kind == EventKind::Deleted;
                insert.execute(params![
                    entry.revision.0.cast_signed(),
                    &*entry.key.resource,
                    entry.key.namespace,
                    entry.key.name,
                    deleted,
                    time,
                    format::checksum(entry, deleted),
                    &entry.value[..],
                ])?;
            }
            Ok(())
        })
    }

    /// Deletes what a compaction found to be garbage and remembers how far it went.
    pub(crate) fn compact(&mut self, compaction: &Compaction) -> Result<(), Failure> {
        self.pages += 2 + compaction.garbage.len();
        self.transaction(|connection| {
            let mut delete = connection.prepare_cached("DELETE FROM log WHERE revision = ?1")?;
            for revision in &compaction.garbage {
                delete.execute([revision.0.cast_signed()])?;
            }
            connection
                .prepare_cached("UPDATE compaction SET until = ?1")?
                .execute([compaction.until.0.cast_signed()])?;
            Ok(())
        })
    }

    /// Whether the write-ahead log is worth copying into the database.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.pages >= CHECKPOINT_PAGES
    }

    /// Copies the write-ahead log into the database: when it is long and nobody waits, or when it is too long.
    pub(crate) fn checkpoint_when_due(&mut self, idle: bool) -> Result<(), Failure> {
        if self.pages >= CHECKPOINT_LIMIT || idle && self.wants_checkpoint() { self.checkpoint() } else { Ok(()) }
    }

    /// Copies the write-ahead log into the database, so that its space can be used again.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Failure> {
        self.pages = 0;
        self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(|error| failure(&error))
    }

    /// Leaves the files as they are when this is closed: after a failed sync, copying could make things worse.
    pub(crate) fn abandon(&self) {
        let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.connection.set_db_config(config, true) {
            tracing::error!(%error, "failed to set the store aside");
        }
    }

    fn transaction(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), Failure> {
        let connection = &self.connection;
        let run = |sql| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        let done = run("BEGIN IMMEDIATE").and_then(|_| work(connection)).and_then(|()| run("COMMIT"));
        let Err(error) = done else { return Ok(()) };
        // Some errors roll back by themselves.
        if !connection.is_autocommit()
            && let Err(rollback) = run("ROLLBACK")
        {
            return Err(Failure::Fatal(format!("{error}, and rolling back: {rollback}")));
        }
        Err(failure(&error))
    }
}

/// What an error of the engine means for the promise that an answer makes.
fn failure(error: &rusqlite::Error) -> Failure {
    let text = error.to_string();
    let Some(code) = error.sqlite_error() else {
        return Failure::Fatal(text);
    };
    match (code.code, code.extended_code) {
        (ErrorCode::DiskFull, _) => Failure::Full(text),
        (ErrorCode::TooBig | ErrorCode::OutOfMemory, _)
        // A write that failed left no complete commit; only a failed sync leaves doubt.
        | (_, ffi::SQLITE_IOERR_WRITE) => Failure::Refused(text),
        _ => Failure::Fatal(text),
    }
}

/// Opens the database file. It must be there.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    use rusqlite::OpenFlags;
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Nobody else may come in, so the index of the write-ahead log stays in our memory: no shared memory file that
    // could fail to grow on a full disk.
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -4096;
         PRAGMA wal_autocheckpoint = 8000;
         PRAGMA journal_size_limit = 16777216;",
    )?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_errors_that_leave_no_doubt_let_the_store_go_on() {
        assert!(matches!(failure(&error(ffi::SQLITE_FULL)), Failure::Full(_)));
        assert!(matches!(failure(&error(ffi::SQLITE_IOERR_WRITE)), Failure::Refused(_)));
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR, ffi::SQLITE_CORRUPT, ffi::SQLITE_CONSTRAINT] {
            assert!(matches!(failure(&error(code)), Failure::Fatal(_)), "{code}");
        }
    }
}
