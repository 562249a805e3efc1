//! Tests with real processes in real namespaces.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod attack;
mod features;
mod host;
mod images;
mod leak;
mod life;
mod network;
mod ordinary;
mod plane;
mod sandbox;
mod support;
mod tokens;
