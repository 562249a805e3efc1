//! The engine on a real plane, one step at a time.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod act;
mod election;
mod faults;
mod gate;
mod run;
mod signals;
mod world;
