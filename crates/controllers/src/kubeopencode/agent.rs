//! An Agent: a Deployment that serves, a Service in front of it, its files and its volumes.

mod decide;
mod objects;
mod observe;
mod standby;

pub use decide::decide;
pub(crate) use decide::trouble;
pub(crate) use objects::context_port;
pub use observe::{AgentController, Observed};
pub use standby::{Idle, idle};
