//! Tests of the machinery crate, one module a subject.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

extern crate orrery_machinery as machinery;

mod apply;
mod generate;
mod patch;
mod shape;
