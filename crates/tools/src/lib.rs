//! Tools: calling them.
//!
//! Owns the one way in which this platform asks a tool's server anything: bounded in time and size, never redirected,
//! never to an address where clouds keep credentials. Refuses to know who is allowed to call what: that is decided by
//! those who hand tools out.

pub mod address;
mod client;
mod http;

pub use client::{Client, Error};
