//! The store from outside: its model, its durability, its failures.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod basics;
mod child;
mod common;
mod concurrency;
mod failures;
mod growth;
mod kill;
mod model;
mod opening;
