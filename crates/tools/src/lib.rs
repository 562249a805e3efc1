//! Tools: finding and calling them.
//!
//! Owns the one way in which this platform asks a tool's server anything: bounded in time and size, never redirected,
//! never to an address where clouds keep credentials. Refuses to know who is allowed to call what: that is decided by
//! those who hand tools out.

mod call;
mod caller;
mod client;
pub mod connect;
mod found;
mod grpc;
mod http;
pub mod mcp;
pub mod openapi;

pub use caller::{Caller, Credentials};
pub use client::{Client, Error};
pub use found::{Found, Problem};
