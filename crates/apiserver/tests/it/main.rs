//! Tests of the API server.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

extern crate orrery_apiserver as apiserver;

mod access;
mod apply;
mod bad_input;
mod clients;
mod crud;
mod custom;
mod deleting;
mod discovery;
mod fuzz;
mod listing;
mod shapes;
mod streams;
mod support;
mod watching;
