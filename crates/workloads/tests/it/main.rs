//! The controllers on a real plane, with Pods that a stand-in for the node brings up.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod claims;
mod cluster;
mod deployments;
mod garbage;
mod namespaces;
mod scheduling;
mod services;
