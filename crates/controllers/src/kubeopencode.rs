//! `kubeopencode.io`: one folder a kind, each with what it looks at (`observe`) and what it decides (`decide`, pure).

pub mod agent;
pub mod agent_template;
pub mod cleanup;
pub mod cron_task;
pub mod host;
pub(crate) mod owner;
pub mod queue;
pub mod session;
pub mod task;
