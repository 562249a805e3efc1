//! The store from outside: its model, its durability, its failures.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod basics;
mod common;
mod model;
