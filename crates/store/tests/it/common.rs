//! Shared by all tests.

use std::sync::Arc;

use orrery_store::{Action, Change, Draft, Entry, Expect, Key, Options, Page, Paging, Revision, Scope, Store};
use tempfile::TempDir;

pub const RESOURCE: &str = "/configmaps";

/// A store in a directory of its own.
pub struct Fixture {
    pub directory: TempDir,
    pub options: Options,
    pub store: Store,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store.db"), options).unwrap();
        Self { directory, options, store }
    }

    /// Closes the store and opens it again.
    pub async fn reopen(self) -> Self {
        self.store.close().await;
        let store = Store::open(self.path(), self.options).unwrap();
        Self { store, ..self }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("store.db")
    }
}

pub fn key(namespace: &str, name: &str) -> Key {
    Key::new(RESOURCE, namespace, name)
}

/// An object whose revision is inside, as the API server writes it.
pub fn draft(data: &str) -> Draft {
    Draft::new(r#"{"metadata":{"resourceVersion":""#.to_owned(), format!(r#""}},"data":"{data}"}}"#))
}

pub fn create(key: Key, data: &str) -> Change {
    Change { key, expect: Expect::Absent, action: Action::Put(draft(data)) }
}

pub fn update(entry: &Entry, data: &str) -> Change {
    Change { key: entry.key.clone(), expect: Expect::At(entry.revision), action: Action::Put(draft(data)) }
}

pub fn delete(entry: &Entry) -> Change {
    Change { key: entry.key.clone(), expect: Expect::At(entry.revision), action: Action::Delete(draft("gone")) }
}

pub fn all() -> Scope {
    Scope::all(RESOURCE)
}

pub fn list(store: &Store) -> Page {
    store.list(&all(), &Paging::default()).unwrap()
}

pub fn at(revision: Revision) -> Paging {
    Paging { at: Some(revision), ..Paging::default() }
}

/// Namespace, name and data, for short comparisons.
pub fn names(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|entry| format!("{}/{}", entry.key.namespace, entry.key.name)).collect()
}
