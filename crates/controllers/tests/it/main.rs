//! Tests of decisions, with the objects as users write them.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, missing_docs, reason = "tests")]

mod agents;
mod cron;
mod manifests;
mod mutants;
mod scenarios;
mod support;
mod tasks;
mod world;
