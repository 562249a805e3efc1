//! How much history a store keeps.

use std::time::Duration;

/// Limits of the history: what exceeds any of them is compacted away by itself. Live objects are never touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// At most this many past changes.
    pub history_events: usize,
    /// At most this many bytes of versions that are only there for history.
    pub history_bytes: usize,
    /// No change older than this.
    pub history_age: Duration,
}

impl Default for Options {
    /// Room for a client that is away for some minutes, in a fraction of the process's memory budget.
    fn default() -> Self {
        Self { history_events: 20_000, history_bytes: 24 << 20, history_age: Duration::from_mins(10) }
    }
}
