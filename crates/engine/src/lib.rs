//! Observe → decide → act: what every controller stands on.
//!
//! ```text
//!  API server ──list, watch──▶ caches ──keys──▶ queue ──▶ observe ──▶ decide ──▶ act ──▶ API server
//!                                ▲                        (reads)     (pure)      │
//!                                └────────── answers to our own writes ───────────┘
//! ```
//!
//! It owns the caches (one per kind, shared by all controllers of the process), the only code that writes, Events,
//! the failure policy, leader election, and time. It refuses to overwrite or delete what is not ours and to act on
//! what has changed since it was observed.
//!
//! Invariants:
//! - every write is conditional on an observed version, or an idempotent create;
//! - a cache never goes back in time and is never behind this process's own writes;
//! - one key is never worked on twice at once;
//! - a decision sees no clock, no network and no randomness.

mod act;
pub mod cache;
pub mod clock;
pub mod condition;
mod controller;
mod decision;
mod engine;
mod error;
mod events;
mod key;
mod lease;
mod metrics;
pub mod queue;
mod runner;
mod view;

pub use cache::{Cached, Change};
pub use clock::{Clock, RealClock, SharedClock, VirtualClock};
pub use condition::Conditions;
pub use controller::{Controller, Watches};
pub use decision::{Call, Decision, Deletion, Event, Outcome, Patch, Step, merge_difference};
pub use engine::{Engine, Options};
pub use error::{Error, Failure, FailureKind};
pub use key::{Key, Object, Target};
pub use lease::Election;
pub use metrics::Metrics;
pub use view::View;
