use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{ActiveTask, CaBundle, ContextItem, Credential, ExtraPort, PodSettings, Proxy, Quota, TaskStart};

/// What an Agent and a template have in common. Every field is optional here, because an Agent inherits what it leaves
/// out; the template's own schema requires what nobody else could give.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blueprint {
    /// Image of the init container that copies the agent's binary to `/tools`. Set without executorImage, it is the
    /// image of the main container, as in older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_image: Option<String>,
    /// Image of the main container, in which the agent works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_image: Option<String>,
    /// Small image for the Pods of Tasks that attach to a running Agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach_image: Option<String>,
    /// The agent's working directory, an absolute path. Default /workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), pattern(r"^/"))]
    pub workspace_dir: Option<String>,
    /// Command of Task Pods, instead of running the agent; the task is in task.md in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// What the agent should know in every Task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Vec<ContextItem>>,
    /// Configuration of the agent (opencode.json), as an object or as a string that holds JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::anything")]
    pub config: Option<serde_json::Value>,
    /// Secrets given to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Vec<Credential>>,
    /// How the Pods are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_spec: Option<PodSettings>,
    /// `ServiceAccount` of the Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub service_account_name: Option<String>,
    /// Certificates of authorities to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<CaBundle>,
    /// Proxies of every container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Secrets with registry credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image_pull_secrets")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// How many Tasks may run at once; unset or 0 means any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_concurrent_tasks: Option<i32>,
    /// How many Tasks may start within a window of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// More ports of the agent's container and Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_ports: Option<Vec<ExtraPort>>,
}

/// A blueprint that Agents follow and that Tasks can run from directly.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "AgentTemplate",
    plural = "agenttemplates",
    shortname = "agt",
    category = "kubeopencode",
    category = "orrery",
    namespaced,
    status = "AgentTemplateStatus",
    derive = "PartialEq",
    doc = "A blueprint: shared settings that Agents follow, and that Tasks can run from without an Agent.",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name must have at most 63 characters, because it becomes the value of a label"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.executorImage", priority = "1"),
    printcolumn(name = "WorkspaceDir", type_ = "string", json_path = ".spec.workspaceDir", priority = "1"),
    printcolumn(name = "ServiceAccount", type_ = "string", json_path = ".spec.serviceAccountName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
pub struct AgentTemplateSpec {
    /// The settings.
    #[serde(flatten)]
    pub blueprint: Blueprint,
}

/// What is known about a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplateStatus {
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: whether the template can be used, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
    /// Tasks that hold a slot of maxConcurrentTasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub active_tasks: Vec<ActiveTask>,
    /// Starts of Tasks within the quota's window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub task_start_history: Vec<TaskStart>,
}
