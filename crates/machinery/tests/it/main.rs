//! Tests of the machinery crate, one module a subject.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

extern crate orrery_machinery as machinery;

mod apply;
mod builtin;
mod crd;
mod fuzz;
mod generate;
mod jsonpath;
mod kubernetes;
mod meta;
mod patch;
mod protobuf;
mod quantity;
mod rules;
mod schema;
mod selector;
mod shape;
