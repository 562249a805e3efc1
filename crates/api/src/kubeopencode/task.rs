use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ContextItem;
use crate::duration::Duration;

/// One piece of work for an agent. It runs once: a failed Task is not retried.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "Task",
    plural = "tasks",
    shortname = "tk",
    category = "kubeopencode",
    category = "orrery",
    namespaced,
    status = "TaskStatus",
    derive = "PartialEq",
    doc = "One piece of work for an agent. It runs once, in a Pod of its own: a failed Task is not retried.",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name must have at most 63 characters, because it becomes the value of a label"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Agent", type_ = "string", json_path = ".status.agentRef.name"),
    printcolumn(name = "Template", type_ = "string", json_path = ".status.templateRef.name", priority = "1"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".status.podName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.agentRef) || has(self.templateRef)")
        .message("set agentRef (run on an Agent) or templateRef (run in a Pod of its own): neither is set")
        .field_path(".agentRef"),
    validation = Rule::new("!(has(self.agentRef) && has(self.templateRef))")
        .message("set only one of agentRef and templateRef")
        .field_path(".templateRef"),
)]
pub struct TaskSpec {
    /// What to do; becomes task.md in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the agent should know in this Task, beside its own contexts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Vec<ContextItem>>,
    /// The Agent that runs it, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_ref: Option<Reference>,
    /// The template whose settings make a Pod for this Task alone, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<Reference>,
    /// How long the Task may run, e.g. 2h30m; without it, as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// An object in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Reference {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Where a Task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaskPhase {
    /// Accepted, not decided yet.
    Pending,
    /// Waiting for the Agent or for a free slot.
    Queued,
    /// Admitted; its Pod exists or is being made.
    Running,
    /// Done, or stopped.
    Completed,
    /// Ended without success.
    Failed,
}

impl TaskPhase {
    /// Whether nothing can change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// What is known about a Task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pending, Queued, Running, Completed or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TaskPhase>,
    /// The Agent that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_ref: Option<Reference>,
    /// The template it runs from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<Reference>,
    /// Name of its Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// When it was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub completion_time: Option<Time>,
    /// Ready, Queued, Complete, Failed, Stopped: what happened and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
    /// The agent's session in which it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

/// A session of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The agent's own identifier of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The title by which it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it used and changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SessionSummary>,
}

/// What a session used and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// Number of messages of both sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_count: Option<i32>,
    /// Tokens used by the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<TokenUsage>,
    /// Cost in US dollars, with six decimals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Number of files changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<i32>,
    /// Lines added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additions: Option<i32>,
    /// Lines removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<i32>,
}

/// Tokens by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct TokenUsage {
    /// Tokens read by the model.
    #[serde(default)]
    pub input: i64,
    /// Tokens written by the model.
    #[serde(default)]
    pub output: i64,
    /// Tokens spent on reasoning.
    #[serde(default)]
    pub reasoning: i64,
    /// Tokens read from and written to the cache.
    #[serde(default)]
    pub cache: i64,
}
