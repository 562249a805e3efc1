//! The router of a canary: it stands behind an agent's Service while a new version has a share of the sessions.
//!
//! ```text
//!  client ──▶ router ──┬──▶ the active version
//!                      └──▶ the new version, for the sessions whose hash is below the share
//! ```
//!
//! Owns the choice of the side and the measuring of both. Refuses to keep anything: which side a session belongs to
//! follows from its name and the file that the controller writes, so a router that died is replaced without a trace. Invariant: a side is chosen at the beginning of a request and holds to its end, streams
//! included; what a report says is under way was chosen before the routing that it names, or by it.

mod body;
mod choice;
mod ledger;
mod proxy;
mod serve;
mod session;

pub use choice::{Side, side};
pub use serve::{Options, serve};

/// Why the router cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port cannot be had.
    #[error("cannot listen on port {port}")]
    Listen {
        /// The port.
        port: u16,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}
