//! Tests with real processes in real namespaces.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod sandbox;
mod support;
