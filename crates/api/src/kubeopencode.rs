//! `kubeopencode.io/v1alpha1`: agents that serve, tasks that run on them, schedules that create tasks.

pub mod account;
mod agent;
mod agent_template;
mod config;
mod context;
mod credential;
mod cron_task;
pub mod images;
mod limits;
pub mod merge;
pub mod names;
mod network;
mod pod;
mod task;

pub use agent::{Agent, AgentSpec, AgentStatus, Persistence, Standby, VolumePersistence};
pub use agent_template::{AgentTemplate, AgentTemplateSpec, AgentTemplateStatus, Blueprint};
pub use config::{Cleanup, KubeOpenCodeConfig, KubeOpenCodeConfigSpec, PullPolicy, SystemImage};
pub use context::{
    ConfigMapContext, ContextItem, ContextType, GitContext, RuntimeContext, SecretReference, UrlContext,
};
pub use credential::{Credential, SecretKeyReference};
pub use cron_task::{ConcurrencyPolicy, CronTask, CronTaskSpec, CronTaskStatus, TaskTemplate, TaskTemplateMetadata};
pub use limits::{ActiveTask, Quota, TaskStart};
pub use network::{CaBundle, CaBundleReference, ExtraPort, Protocol, Proxy};
pub use pod::{PodSettings, Scheduling};
pub use task::{Reference, Session, SessionSummary, Task, TaskPhase, TaskSpec, TaskStatus, TokenUsage};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The definitions of this group.
pub fn crds() -> Vec<CustomResourceDefinition> {
    use crate::schema::finish;
    vec![
        finish(Agent::crd(), &[]),
        finish(AgentTemplate::crd(), &["workspaceDir", "serviceAccountName"]),
        finish(CronTask::crd(), &[]),
        finish(KubeOpenCodeConfig::crd(), &[]),
        finish(Task::crd(), &[]),
    ]
}
