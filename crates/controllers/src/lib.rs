//! The product: controllers that turn what users write into what runs.
//!
//! Owns the decisions about every kind of every dialect, and the one builder of Pods that they share. Refuses to touch
//! the cluster except through the engine. Invariant: a decision is a pure function of what was observed and the time,
//! so it can be crashed at any step and made again.

pub mod ask;
pub mod kubeopencode;
pub mod logs;
pub mod omnia;
pub mod pod;

use std::sync::Arc;

use engine::{Engine, SharedClock};
use tokio_util::sync::CancellationToken;

use kubeopencode::session::Sessions;

/// What the operator of the platform decides.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Images, and how long is waited for what.
    pub policy: kubeopencode::task::Policy,
    /// What is decided about agents that play packs.
    pub omnia: omnia::Settings,
    /// Where logs are kept before their Pod is deleted; nowhere when `None`.
    pub logs: Option<logs::Archive>,
    /// Namespaces, workers and our own name.
    pub engine: engine::Options,
}

/// Runs every controller of the product until told to stop. One plane, one process: no election.
pub async fn start(
    client: kube::Client,
    clock: SharedClock,
    options: &Options,
    sessions: Arc<dyn Sessions>,
    stop: CancellationToken,
) {
    install(Engine::new(client, clock, options.engine.clone()), options, sessions).run(None, stop).await;
}

/// Adds every controller of the product to an engine.
#[must_use]
pub fn install(engine: Engine, options: &Options, sessions: Arc<dyn Sessions>) -> Engine {
    use kubeopencode::{agent, agent_template, cleanup, cron_task, queue, task};
    use omnia::{agent_policy, agent_runtime, prompt_pack, provider, tool_registry};
    let settings = &options.omnia;
    engine
        .with(task::TaskController { policy: options.policy.clone(), sessions, logs: options.logs.clone() })
        .with(queue::AgentQueue)
        .with(queue::TemplateQueue)
        .with(agent::AgentController { system: options.policy.system.clone() })
        .with(agent_template::TemplateController)
        .with(cron_task::CronTaskController)
        .with(cleanup::CleanupController)
        .with(provider::ProviderController)
        .with(prompt_pack::PackController)
        .with(tool_registry::RegistryController { settings: settings.clone() })
        .with(agent_policy::PolicyController { settings: settings.clone() })
        .with(agent_runtime::RuntimeController { settings: settings.clone() })
}
