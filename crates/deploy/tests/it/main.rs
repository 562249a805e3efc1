//! What the engine promises, on a target in memory; what the Kubernetes target promises, on a plane in good and bad weather.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod cluster;
mod decisions;
mod deployer;
mod faults;
mod laws;
mod memory;
mod protocol;
mod torture;
