//! Deploys packs of prompts: plan, apply, status, destroy, import, refresh.
//!
//! ```text
//!   pack + config ──► desired resources (in phases)
//!                          │        state (what we made)   live objects (what is there)
//!                          ▼              │                     │
//!                        plan ◄───────────┴─────────────────────┘      pure, but for dry runs
//!                          │
//!                        apply: phase after phase, side by side within one ──► state
//! ```
//!
//! The engine knows no target: it pairs, decides, orders, reports and records. A [`Target`] says what is live, what a write
//! would change, and writes. What the engine promises is in `tests/it/laws.rs`.
//!
//! The one target here is [`kubernetes`]; [`adapter`] speaks the protocol of `PromptKit` over standard input and output.
//!
//! It owns the order of writes and the truth of the state. It refuses to touch what is not ours: an object counts as ours
//! when the state knows its uid, or, where the state knows none, when it carries our labels.

pub mod adapter;
mod apply;
mod change;
mod destroy;
mod event;
mod failure;
mod import;
pub mod kubernetes;
mod plan;
mod resource;
pub mod state;
mod status;
mod target;

pub use apply::{Applied, apply};
pub use change::{Action, Change, FieldChange, Plan};
pub use destroy::{Destroyed, destroy};
pub use event::{Event, EventKind, Quiet, Report, ResourceEvent};
pub use failure::{Category, Failure, Problems};
pub use import::{import, refresh};
pub use plan::{dry_run, plan};
pub use resource::{Desired, Key, Owner};
pub use state::{Deployment, Keeper, LastPlan, Resource, State, Status};
pub use status::{Health, Overall, ResourceStatus, StatusReport, status};
pub use target::{Live, Patience, Preview, Target, Tell, Written};

/// Requests in flight at once; more would only queue up in the API server.
const ABREAST: usize = 16;
