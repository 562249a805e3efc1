//! What is stored and what is asked: keys, revisions, entries, changes and events.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A position in the log. Every committed change has its own, larger than all before it, also across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The name of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Group and plural, as in `apps/deployments`; the core group is empty, as in `/pods`.
    pub resource: Arc<str>,
    /// Empty for objects of the cluster.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl Key {
    /// A key from its three parts.
    pub fn new(resource: impl Into<Arc<str>>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Where the key sorts inside its resource. Lists come in the byte order of `namespace/name`, as etcd gives them.
    pub(crate) fn path(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { [&self.namespace, "/", &self.name].concat() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.resource, self.path())
    }
}

/// One version of one object, immutable and shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which object.
    pub key: Key,
    /// The revision that wrote this version.
    pub revision: Revision,
    /// The object's JSON, its resourceVersion inside: ready to be sent.
    pub value: Bytes,
}

/// A value that waits for its revision: the store puts the decimal digits between the two halves.
///
/// Only the store knows the revision, and only at the moment of writing; splicing spares every reader a parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// All bytes before the digits.
    pub before: Bytes,
    /// All bytes after the digits.
    pub after: Bytes,
}

impl Draft {
    /// A draft from its two halves.
    pub fn new(before: impl Into<Bytes>, after: impl Into<Bytes>) -> Self {
        Self { before: before.into(), after: after.into() }
    }

    pub(crate) fn at(&self, revision: Revision) -> Bytes {
        let digits = revision.to_string();
        let mut value = Vec::with_capacity(self.before.len() + digits.len() + self.after.len());
        value.extend_from_slice(&self.before);
        value.extend_from_slice(digits.as_bytes());
        value.extend_from_slice(&self.after);
        value.into()
    }
}

/// What the writer believes about the object it changes (compare-and-swap).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no such object.
    Absent,
    /// The object is there, at exactly this revision.
    At(Revision),
}

/// What a change does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes the object.
    Put(Draft),
    /// Deletes the object; the draft is its final form, sent in the event.
    Delete(Draft),
}

/// One conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// The condition.
    pub expect: Expect,
    /// What happens when the condition holds.
    pub action: Action,
}

/// Which objects a list or watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// As in [`Key::resource`].
    pub resource: Arc<str>,
    /// One namespace, or all objects of the resource.
    pub namespace: Option<String>,
}

impl Scope {
    /// All objects of a resource.
    pub fn all(resource: impl Into<Arc<str>>) -> Self {
        Self { resource: resource.into(), namespace: None }
    }

    /// The objects of a resource in one namespace.
    pub fn namespace(resource: impl Into<Arc<str>>, namespace: impl Into<String>) -> Self {
        Self { resource: resource.into(), namespace: Some(namespace.into()) }
    }
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// At most this many entries.
    pub limit: Option<usize>,
    /// Only entries that sort after this namespace and name (the last entry of the page before).
    pub after: Option<(String, String)>,
    /// The list as it was at this revision; now, when absent.
    pub at: Option<Revision>,
}

/// A list, or a page of it: all entries are of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In the order of their keys.
    pub entries: Vec<Arc<Entry>>,
    /// The moment of the list. A watch from here misses nothing and repeats nothing.
    pub revision: Revision,
    /// How many entries follow after this page.
    pub remaining: usize,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It is new.
    Added,
    /// It has a new version.
    Modified,
    /// It is gone; the event's entry is its final form.
    Deleted,
}

/// One committed change, as a watch sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The version that the change wrote.
    pub entry: Arc<Entry>,
    /// The version before it (selectors must know whether the object matched).
    pub previous: Option<Arc<Entry>>,
}

impl Event {
    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.entry.revision
    }
}
