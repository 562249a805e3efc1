//! What tests and benchmarks share.

pub mod kubernetes;
