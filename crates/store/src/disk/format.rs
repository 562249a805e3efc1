//! The file format.
//!
//! Every version of every object is a row of `log`. Rows that a newer version of the same object replaced, and deletions,
//! stay until the history that needs them is compacted; `compaction` remembers how far that went, so the newest revision
//! is known even when its row is gone.

use crate::Entry;

/// "Orry": tells our files from other SQLite databases.
pub(crate) const APPLICATION: i32 = 0x4f72_7279;
/// Changes with the tables below.
pub(crate) const VERSION: i64 = 1;

pub(crate) const CREATE: &str = "
    BEGIN;
    PRAGMA application_id = 1332900473;
    PRAGMA user_version = 1;
    CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        deleted INTEGER NOT NULL,
        time INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        value BLOB NOT NULL
    ) STRICT;
    CREATE TABLE compaction (until INTEGER NOT NULL) STRICT;
    -- As in etcd, an empty store is at revision 1: 0 has a meaning of its own in requests.
    INSERT INTO compaction VALUES (1);
    COMMIT;
";

pub(crate) const INSERT: &str = "
    INSERT INTO log (revision, resource, namespace, name, deleted, time, checksum, value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

pub(crate) const SELECT: &str = "
    SELECT revision, resource, namespace, name, deleted, time, checksum, value FROM log ORDER BY revision";

/// Guards a row against bits that flip on disk, which SQLite itself would not notice.
pub(crate) fn checksum(entry: &Entry, deleted: bool) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&entry.revision.0.to_le_bytes());
    hasher.update(&[u8::from(deleted)]);
    for part in [&*entry.key.resource, &entry.key.namespace, &entry.key.name] {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.update(&entry.value);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_carry_our_name_and_version() {
        assert!(CREATE.contains(&format!("application_id = {APPLICATION};")));
        assert!(CREATE.contains(&format!("user_version = {VERSION};")));
    }
}
