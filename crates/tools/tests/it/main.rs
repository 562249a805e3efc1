//! Tools of servers that nobody here wrote, and of servers that nobody should have written.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod credentials;
mod grpc;
mod hostile;
mod mcp;
mod openapi;
mod servers;
