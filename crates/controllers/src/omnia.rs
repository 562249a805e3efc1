//! `omnia.altairalabs.ai`: one folder a kind, each with what it looks at (`observe`) and what it decides (`decide`, pure).

pub mod agent_policy;
pub mod agent_runtime;
mod owner;
pub mod prompt_pack;
pub mod provider;
mod report;
mod secrets;
pub mod settings;
pub mod tool_registry;

pub use secrets::Contents as SecretContents;
pub use settings::Settings;
