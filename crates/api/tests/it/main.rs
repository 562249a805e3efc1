//! Tests of what users write.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod definitions;
mod manifests;
