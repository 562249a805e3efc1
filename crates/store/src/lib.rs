//! The embedded plane's durable revision log and watch cache.
//!
//! ```text
//!  write ──► queue ──► writer thread ──► disk: one transaction, one sync for all who wait
//!                            │ after the commit
//!                            ▼
//!  get, list ◄────────── memory: live objects in order, recent history
//!  watch     ◄────────── topics: recent events by resource and namespace; a watch is a cursor
//! ```
//!
//! It owns one SQLite file and the order of changes. It knows nothing of Kubernetes but that an object's bytes hold its
//! revision. It refuses files that are not its own, a second holder, and writes whose condition does not hold.
//!
//! What always holds:
//! - An acknowledged change is on disk. A change that was not acknowledged is there entirely or not at all.
//! - Revisions only grow, also across restarts and after everything was deleted and compacted.
//! - Readers see a change only after it is durable, and changes in the order of their revisions.
//! - A watch sees each change after its start exactly once, or ends with an error.
//! - Memory and file are bounded by the live objects and the limits in [`Options`].
//! - When a sync fails the store stops: the kernel may have dropped what it could not write.

mod disk;
mod entry;
mod error;
mod holder;
mod memory;
mod options;
mod queue;
mod store;
mod topic;
mod watch;
mod writer;

pub use entry::{Action, Change, Draft, Entry, Event, EventKind, Expect, Key, Page, Paging, Revision, Scope};
pub use error::{OpenError, ReadError, WatchEnded, WriteError};
pub use memory::Stats;
pub use options::Options;
pub use store::Store;
pub use watch::Watch;
