//! The verbs, with real files, the real git and a real HTTP server on loopback.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod context;
mod delivery;
mod git;
mod url;
