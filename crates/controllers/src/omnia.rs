//! `omnia.altairalabs.ai`: one folder a kind, each with what it looks at (`observe`) and what it decides (`decide`, pure).

pub mod agent_policy;
pub mod agent_runtime;
mod contents;
mod owner;
pub mod prompt_pack;
pub mod provider;
mod report;
pub mod settings;
pub mod tool_registry;

pub use contents::Contents;
pub use settings::Settings;
