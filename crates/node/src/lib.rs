//! Runs Pods on this machine.
//!
//! ```text
//!  API ──watch──▶ agent ──▶ worker (one a Pod) ──decide──▶ lifecycle (pure)
//!                              │  ▲
//!                        Driver│  │what happened
//!                              ▼  │
//!                            shim (one process a Pod, outlives us) ──▶ containers
//! ```
//!
//! The crate owns everything between a Pod assigned to this node and its processes: volumes, environment, probes, logs,
//! isolation. It reaches the API through `kube::Client` only. It refuses what it cannot isolate, and says so in the Pod.
//!
//! Invariants: a start of a container happens at most once, marked on disk before it happens; an exit code is on disk
//! before anybody is told; no process of a Pod outlives its shim; nothing runs without the isolation that the Pod's
//! condition names.

pub mod access;
pub mod agent;
mod cgroup;
mod claims;
#[expect(unsafe_code, reason = "one system call that has no safe wrapper")]
pub mod code;
pub mod driver;
mod environment;
mod events;
pub mod images;
mod lifecycle;
mod logs;
pub mod network;
mod plan;
mod probes;
pub mod process;
mod registration;
pub mod shim;
mod status;
mod volumes;
mod worker;

pub use access::Access;
pub use agent::{Config, Handle, end_all, start};
