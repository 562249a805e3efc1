//! Tools of servers that nobody here wrote, and of servers that nobody should have written.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod hostile;
mod openapi;
mod servers;
