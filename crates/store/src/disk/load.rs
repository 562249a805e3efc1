//! Opening: makes a new file, or checks and reads the one that is there. A file that is not ours, or not whole, is never
//! written to.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, Row};

use super::{Disk, connect, format};
use crate::holder::beside;
use crate::memory::Memory;
use crate::{Entry, Event, EventKind, Key, OpenError, Revision};

/// Free space in the file that is worth giving back at the next start.
const VACUUM_BYTES: i64 = 32 << 20;

/// Opens the store at `path`, which the caller holds.
pub(crate) fn open(path: &Path) -> Result<(Disk, Memory), OpenError> {
    match fs::metadata(path) {
        Ok(metadata) => {
            if !metadata.is_file() {
                let detail = if metadata.file_type().is_fifo() { "a pipe" } else { "not a file" };
                return Err(foreign(path, detail));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => create(path)?,
        Err(source) => return Err(io(path, source)),
    }
    check_header(path)?;
    let connection = connect(path).map_err(|error| database(path, error))?;
    // Until it is known to be good, closing must not change it.
    let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    let loaded = connection
        .set_db_config(keep, true)
        .map_err(|error| database(path, error))
        .and_then(|_| load(path, &connection))
        .and_then(|memory| {
            connection.set_db_config(keep, false).map_err(|error| database(path, error))?;
            Ok(memory)
        });
    let memory = loaded?;
    vacuum_when_sparse(&connection).map_err(|error| database(path, error))?;
    Ok((Disk { connection, pages: 0 }, memory))
}

/// Makes an empty store under another name first: at `path` there is either nothing or a whole store.
fn create(path: &Path) -> Result<(), OpenError> {
    for suffix in ["-wal", "-journal"] {
        if beside(path, suffix).exists() {
            return Err(OpenError::Corrupted {
                path: path.to_owned(),
                detail: format!("the file is gone, but its {suffix} file is there"),
            });
        }
    }
    let draft = beside(path, ".new");
    for suffix in ["", "-wal", "-journal", "-shm"] {
        match fs::remove_file(beside(&draft, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(&draft, error)),
            _ => {}
        }
    }
    // Secrets are in it.
    File::options().write(true).create_new(true).mode(0o600).open(&draft).map_err(|error| io(&draft, error))?;
    let make = || -> rusqlite::Result<()> {
        let connection = connect(&draft)?;
        connection.execute_batch(format::CREATE)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)
    };
    make().map_err(|error| database(path, error))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::rename(&draft, path).and_then(|()| File::open(directory)?.sync_all()).map_err(|error| io(path, error))
}

/// Looks at the first bytes before the engine does, because the engine may write into what it opens.
fn check_header(path: &Path) -> Result<(), OpenError> {
    let mut header = [0; 100];
    let mut file = File::open(path).map_err(|error| io(path, error))?;
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(foreign(path, "it is empty or too short"));
        }
        Err(error) => return Err(io(path, error)),
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(foreign(path, "it is not a database"));
    }
    if header[68..72] != format::APPLICATION.to_be_bytes() {
        return Err(foreign(path, "it is a database of something else"));
    }
    Ok(())
}

fn load(path: &Path, connection: &Connection) -> Result<Memory, OpenError> {
    let engine = |error| database(path, error);
    let corrupted = |detail: String| OpenError::Corrupted { path: path.to_owned(), detail };
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(engine)?;
    if found > format::VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found, supported: format::VERSION });
    }
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(engine)?;
    if found != format::VERSION || mode != "wal" {
        return Err(corrupted(format!("format {found}, journal mode {mode}")));
    }
    let until: i64 = connection.query_row("SELECT until FROM compaction", [], |row| row.get(0)).map_err(engine)?;
    let until = Revision(until.cast_unsigned());
    let memory = Memory::new(until, until);
    let mut statement = connection.prepare(format::SELECT).map_err(engine)?;
    let mut rows = statement.query([]).map_err(engine)?;
    let mut resources = HashSet::new();
    while let Some(row) = rows.next().map_err(engine)? {
        let version = Version::read(row, &mut resources).map_err(engine)?;
        let revision = version.entry.revision;
        if !version.intact {
            return Err(corrupted(format!("revision {revision} is not what was written")));
        }
        version.restore(&memory, until);
    }
    Ok(memory)
}

/// A row of the log.
struct Version {
    entry: Arc<Entry>,
    deleted: bool,
    time: i64,
    intact: bool,
}

impl Version {
    fn read(row: &Row<'_>, resources: &mut HashSet<Arc<str>>) -> rusqlite::Result<Self> {
        let resource = row.get_ref(1)?.as_str()?;
        let resource = resources.get(resource).cloned().unwrap_or_else(|| {
            let resource: Arc<str> = resource.into();
            resources.insert(resource.clone());
            resource
        });
        let entry = Entry {
            key: Key { resource, namespace: row.get(2)?, name: row.get(3)? },
            revision: Revision(row.get::<_, i64>(0)?.cast_unsigned()),
            value: Bytes::copy_from_slice(row.get_ref(7)?.as_blob()?),
        };
        let deleted = row.get(4)?;
        let checksum: u32 = row.get(6)?;
        Ok(Self {
            intact: checksum == format::checksum(&entry, deleted),
            entry: Arc::new(entry),
            deleted,
            time: row.get(5)?,
        })
    }

    fn restore(self, memory: &Memory, until: Revision) {
        if self.entry.revision <= until {
            if !self.deleted {
                memory.restore(self.entry);
            }
            return;
        }
        let previous = memory.get(&self.entry.key);
        let kind = match (self.deleted, &previous) {
            (true, _) => EventKind::Deleted,
            (false, Some(_)) => EventKind::Modified,
            (false, None) => EventKind::Added,
        };
        let event = Event { kind, entry: self.entry, previous };
        memory.apply(&[Arc::new(event)], self.time);
    }
}

/// Pages that compaction freed are used again while running; only a file that is mostly empty is worth rewriting.
fn vacuum_when_sparse(connection: &Connection) -> rusqlite::Result<()> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let free = number("PRAGMA freelist_count")?;
    let pages = number("PRAGMA page_count")?;
    if free * number("PRAGMA page_size")? < VACUUM_BYTES || free < pages / 2 {
        return Ok(());
    }
    match connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);") {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            tracing::warn!("no space to make the store's file smaller");
            Ok(())
        }
        done => done,
    }
}

fn foreign(path: &Path, detail: &str) -> OpenError {
    OpenError::Foreign { path: path.to_owned(), detail: detail.to_owned() }
}

fn io(path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), source }
}

fn database(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match &source {
        rusqlite::Error::SqliteFailure(error, _)
            if !matches!(error.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) =>
        {
            OpenError::Database { path, source }
        }
        // Tables or columns that are missing or have other types.
        _ => OpenError::Corrupted { path, detail: source.to_string() },
    }
}
