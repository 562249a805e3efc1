use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProviderReference;
use super::canary::{Canary, CanaryStatus, RejectedVersion};

/// A pack of prompts, one version of which is active.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "omnia.altairalabs.ai",
    version = "v1alpha1",
    kind = "PromptPack",
    plural = "promptpacks",
    shortname = "pp",
    category = "omnia",
    category = "orrery",
    namespaced,
    status = "PromptPackStatus",
    derive = "PartialEq",
    doc = "A pack of prompts: where its content is, which version of it is wanted, and how a new one reaches the agents.",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name must have at most 63 characters, because it becomes the value of a label"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.activeVersion"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.rollout.type"),
    printcolumn(name = "Canary", type_ = "string", json_path = ".status.canaryVersion", priority = 1),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".status.canaryWeight", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase")]
pub struct PromptPackSpec {
    /// Where the content is.
    pub source: PackSource,
    /// The version that is wanted. Content of another version is held back until the two agree, so that changing the
    /// content and this field in two writes changes the agents once.
    #[schemars(pattern(
        r"^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$"
    ))]
    pub version: String,
    /// How a new version reaches the agents.
    #[serde(default)]
    pub rollout: Rollout,
    /// The provider of runtimes that name none themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderReference>,
    /// One line on what the pack is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Where a pack's content is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.configMapRef)")
        .message("configMapRef is required when type is configmap: name the ConfigMap whose key pack.json holds the pack")
        .field_path(".configMapRef"),
)]
pub struct PackSource {
    /// What kind of place it is.
    #[serde(rename = "type")]
    pub type_: PackSourceType,
    /// The `ConfigMap` that holds the pack under the key `pack.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapReference>,
}

/// A kind of place for a pack's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackSourceType {
    /// A `ConfigMap` in the same namespace.
    ConfigMap,
}

/// A `ConfigMap` in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ConfigMapReference {
    /// Name of the `ConfigMap`.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// How a new version reaches the agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("self.type == 'canary' || !has(self.canary)")
        .message("canary is read only when type is canary: remove it, or change type")
        .field_path(".canary"),
)]
pub struct Rollout {
    /// The way: `immediate` makes a valid new version active at once, `canary` gives it a share of the sessions first.
    #[serde(default, rename = "type")]
    pub type_: RolloutType,
    /// How a canary gets its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
}

/// A way for a new version to reach the agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutType {
    /// All agents at once.
    #[default]
    Immediate,
    /// A share of the sessions of all agents, which grows.
    Canary,
}

/// Where a pack stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PackPhase {
    /// No version is active yet.
    #[default]
    Pending,
    /// The version that is wanted is active, or somebody gave it up.
    Active,
    /// The version that is wanted has a share of the sessions.
    Canary,
    /// The content cannot be used, or did not hold as a canary; a version that was active before stays so.
    Failed,
}

/// What is known about a pack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptPackStatus {
    /// Pending, Active, Canary or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PackPhase>,
    /// The version that agents have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_version: Option<String>,
    /// The version that has a share of the sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_version: Option<String>,
    /// That share, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_weight: Option<i32>,
    /// How the canary goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,
    /// The version that was given up last, if it is still the one that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<RejectedVersion>,
    /// When the active content last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_updated: Option<Time>,
    /// The contents that are kept, the active one first, and after it the canary's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub versions: Vec<KeptVersion>,
    /// How many `AgentRuntimes` use the pack.
    #[serde(default)]
    pub agents: i32,
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `SourceValid`, `SchemaValid`, `AgentsNotified` and `CanaryProgressing`, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
}

/// A content that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptVersion {
    /// Its version.
    pub version: String,
    /// The immutable `ConfigMap` that holds it.
    pub config_map: String,
    /// Its prompts.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// The prompt that is played when none is asked for; missing where that cannot be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}
