//! What tests and benchmarks share.

pub mod https;
pub mod kubernetes;
pub mod up;
