//! Files that must not be opened: a clear error, and not one byte changed.

use std::fs;
use std::path::Path;

use orrery_store::{OpenError, Options, Store};

use crate::common::{Fixture, create, key};

fn refused(path: &Path) -> OpenError {
    Store::open(path, Options::default()).unwrap_err()
}

/// Opening must fail and leave the file as it was, also when tried twice.
fn refused_unharmed(path: &Path) -> OpenError {
    let before = fs::read(path).unwrap();
    refused(path);
    let error = refused(path);
    assert!(fs::read(path).unwrap() == before, "the file was changed");
    error
}

/// A closed store with some objects in it.
async fn closed() -> Fixture {
    let fixture = Fixture::new();
    for number in 0..50 {
        let data = format!("marker{number:03}{}", "-".repeat(1500));
        let change = create(key("n", &number.to_string()), &data);
        fixture.store.write(change).await.unwrap();
    }
    fixture.store.close().await;
    fixture
}

fn find(bytes: &[u8], text: &str) -> usize {
    let mut windows = bytes.windows(text.len());
    windows.position(|part| part == text.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_second_holder_is_told_who_holds_it() {
    let fixture = Fixture::new();
    let error = refused(&fixture.path());
    let OpenError::Held { holder, .. } = &error else { panic!("{error}") };
    assert!(holder.starts_with(&format!("process {} since 20", std::process::id())));
    assert!(error.to_string().contains(holder.as_str()));
    fixture.reopen().await;
}

#[test]
fn foreign_files_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    for content in [&b""[..], b"short", &[b'x'; 5000]] {
        fs::write(&path, content).unwrap();
        assert!(matches!(refused_unharmed(&path), OpenError::Foreign { .. }));
    }
    fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs (id); INSERT INTO theirs VALUES (1);").unwrap();
    assert!(matches!(refused_unharmed(&path), OpenError::Foreign { .. }));
    drop(other);
    assert!(matches!(refused_unharmed(&path), OpenError::Foreign { .. }));
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    let error = refused(&directory.path().join("missing/store.db"));
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[tokio::test]
async fn a_file_of_a_later_release_is_left_alone() {
    let fixture = closed().await;
    let connection = rusqlite::Connection::open(fixture.path()).unwrap();
    connection.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(connection);
    let error = refused_unharmed(&fixture.path());
    assert!(matches!(error, OpenError::Newer { found: 99, supported: 1, .. }), "{error}");
}

#[tokio::test]
async fn a_flipped_bit_is_noticed() {
    let fixture = closed().await;
    let mut bytes = fs::read(fixture.path()).unwrap();
    let place = find(&bytes, "marker025");
    bytes[place + 100] ^= 1;
    fs::write(fixture.path(), bytes).unwrap();
    let error = refused_unharmed(&fixture.path());
    assert!(matches!(error, OpenError::Corrupted { .. }), "{error}");
    assert!(error.to_string().contains("revision 27"), "{error}");
}

#[tokio::test]
async fn lost_and_garbled_pages_are_noticed() {
    let fixture = closed().await;
    let whole = fs::read(fixture.path()).unwrap();
    let middle = whole.len() / 2 / 4096 * 4096;
    let mut garbled = whole.clone();
    garbled[middle..middle + 4096].fill(0xa5);
    let mut zeroed = whole.clone();
    zeroed[middle..].fill(0);
    for bytes in [&garbled, &zeroed, &whole[..middle], &whole[..middle + 100]] {
        fs::write(fixture.path(), bytes).unwrap();
        let error = refused_unharmed(&fixture.path());
        assert!(matches!(error, OpenError::Corrupted { .. }), "{error}");
    }
    fs::write(fixture.path(), &whole).unwrap();
    let store = Store::open(fixture.path(), Options::default()).unwrap();
    assert_eq!(store.stats().objects, 50);
}

#[tokio::test]
async fn a_log_without_its_file_is_not_taken_for_a_new_store() {
    let fixture = closed().await;
    fs::remove_file(fixture.path()).unwrap();
    let log = fixture.directory.path().join("store.db-wal");
    fs::write(&log, b"what was not copied yet").unwrap();
    let error = refused(&fixture.path());
    assert!(matches!(error, OpenError::Corrupted { .. }), "{error}");
    assert!(!fixture.path().exists());
    assert_eq!(fs::read(&log).unwrap(), b"what was not copied yet");
}

#[test]
fn a_start_that_was_cut_short_is_started_again() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    fs::write(directory.path().join("store.db.new"), b"half").unwrap();
    let store = Store::open(&path, Options::default()).unwrap();
    drop(store);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "secrets are in it");
}
