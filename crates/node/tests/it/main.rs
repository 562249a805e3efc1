//! Tests with real processes in real namespaces.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod attack;
mod images;
mod leak;
mod life;
mod network;
mod plane;
mod sandbox;
mod support;
