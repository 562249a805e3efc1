use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{ActiveTask, Blueprint, Reference, TaskStart};
use crate::duration::Duration;

/// A running AI agent: a server with a stable address that Tasks attach to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "Agent",
    plural = "agents",
    shortname = "ag",
    category = "kubeopencode",
    category = "orrery",
    namespaced,
    status = "AgentStatus",
    derive = "PartialEq",
    doc = "A running AI agent: a Deployment that serves, a Service in front of it, and Tasks that attach to it.",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name must have at most 63 characters, because it names a Service and becomes the value of a label"),
    validation = Rule::new("has(self.spec.serviceAccountName) || has(self.spec.templateRef)")
        .message("spec.serviceAccountName is required, unless spec.templateRef names a template that gives it"),
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.profile", priority = "1"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.executorImage", priority = "1"),
    printcolumn(name = "ServiceAccount", type_ = "string", json_path = ".spec.serviceAccountName"),
    printcolumn(name = "MaxTasks", type_ = "integer", json_path = ".spec.maxConcurrentTasks", priority = "1"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// Settings that a template can give too.
    #[serde(flatten)]
    pub blueprint: Blueprint,
    /// The template that gives what this Agent leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<Reference>,
    /// One line on what the Agent is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Port of the agent's server.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// What survives the server's Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// When true, the server is scaled to nothing; Tasks wait until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Suspend the Agent by itself when nobody needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<Standby>,
}

fn default_port() -> i32 {
    i32::from(super::names::DEFAULT_PORT)
}

/// Volumes that outlive the server's Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    /// Keep the sessions (a database).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<VolumePersistence>,
    /// Keep the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<VolumePersistence>,
}

/// A volume of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumePersistence {
    /// `StorageClass` of the claim; without it, the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Size of the claim, e.g. 2Gi.
    #[serde(default = "one_gibibyte")]
    #[schemars(pattern(r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|[mk])?$"))]
    pub size: String,
}

fn one_gibibyte() -> String {
    "1Gi".into()
}

/// When an idle Agent is suspended. A new Task resumes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standby {
    /// How long nothing must have happened, e.g. 30m.
    pub idle_timeout: Duration,
}

/// What is known about an Agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `ServerReady`, `ServerHealthy`, Suspended, and the reason of every failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
    /// Name of the server's Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// Name of the server's Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Address of the server within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether the server answers.
    #[serde(default)]
    pub ready: bool,
    /// Whether the server is scaled to nothing.
    #[serde(default)]
    pub suspended: bool,
    /// Since when nothing needs the Agent; only with standby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub idle_since: Option<Time>,
    /// Tasks that hold a slot of maxConcurrentTasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub active_tasks: Vec<ActiveTask>,
    /// Starts of Tasks within the quota's window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub task_start_history: Vec<TaskStart>,
}
