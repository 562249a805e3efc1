//! Tests of the API server.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

extern crate orrery_apiserver as apiserver;

mod access;
mod crud;
