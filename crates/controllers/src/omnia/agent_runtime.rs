//! An `AgentRuntime`: a Deployment that plays a pack, a Service in front of it, and the tools it may call; while its pack has a canary, a second
//! Deployment and a router.

mod canary;
mod decide;
mod environment;
mod objects;
mod observe;
mod plan;
mod router;
mod tools;
mod uses;

pub use decide::decide;
pub use observe::{Canary, Observed, RuntimeController};
