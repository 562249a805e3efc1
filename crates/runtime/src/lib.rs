//! A small agent runtime, so that a pack can run anywhere: what an `AgentRuntime`'s two containers run when no other
//! image is named.
//!
//! ```text
//!  client ──HTTP, SSE, WebSocket──▶ facade ──HTTP, SSE──▶ runtime ──▶ provider
//!                                                            └──────▶ tools
//! ```
//!
//! Owns the reading of the `OMNIA_*` contract, sessions, prompts, the loop of model and tools. Refuses to know
//! Kubernetes: everything comes from the environment and two files, which are read again before every request, so that a
//! new pack or policy needs no restart. Invariant: a tool that is not in the tools file at the moment of the call is not
//! called.

mod adopt;
mod chat;
mod converse;
mod env;
pub mod facade;
mod files;
mod metrics;
mod provider;
mod render;
pub mod runtime;
mod session;

pub use chat::{Event, Request};
pub use env::Settings;

/// Why a container cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable is missing or says something else than it should.
    #[error("{variable}: {problem}")]
    Setting {
        /// The variable.
        variable: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A port cannot be had.
    #[error("cannot listen on port {port}")]
    Listen {
        /// The port.
        port: u16,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A client could not be made.
    #[error("cannot make an HTTP client: {0}")]
    Client(String),
}
