//! What is fuzzed. Nothing here may panic but by a broken promise.

pub mod request_target;
pub mod targets;
