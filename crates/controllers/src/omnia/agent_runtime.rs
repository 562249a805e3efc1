//! An `AgentRuntime`: a Deployment that plays a pack, a Service in front of it, and the tools it may call.

mod decide;
mod environment;
mod objects;
mod observe;
mod plan;
mod tools;

pub use decide::decide;
pub use observe::{Observed, RuntimeController};
