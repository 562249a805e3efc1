use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::canary::AgentCanary;
use super::provider::InlineProvider;
use crate::duration::Duration;

/// An agent that plays a pack of prompts.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "omnia.altairalabs.ai",
    version = "v1alpha1",
    kind = "AgentRuntime",
    plural = "agentruntimes",
    shortname = "ar",
    category = "omnia",
    category = "orrery",
    namespaced,
    status = "AgentRuntimeStatus",
    derive = "PartialEq",
    doc = "An agent that plays a pack of prompts: a Deployment of a facade and a runtime, and a Service in front of it.",
    validation = Rule::new("size(self.metadata.name) <= 56")
        .message("metadata.name must have at most 56 characters, because it names Services and objects with an ending"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.replicas.ready"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.activeVersion"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase")]
pub struct AgentRuntimeSpec {
    /// The pack that it plays.
    pub prompt_pack_ref: PromptPackReference,
    /// The prompt of the pack that it plays; by default the pack's entry, or the prompt `default`, or its only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub agent_name: Option<String>,
    /// What clients talk to.
    pub facade: Facade,
    /// What thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework: Option<Framework>,
    /// The tools that it may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_registry_ref: Option<ToolRegistryReference>,
    /// A policy for its tools, beside those that select it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_policy_ref: Option<AgentPolicyReference>,
    /// Where conversations are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// How the Pods are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeSettings>,
    /// Files that prompts may show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Media>,
    /// The model. Wins over `provider`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderReference>,
    /// The model, written down here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<InlineProvider>,
}

/// A `PromptPack` in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct PromptPackReference {
    /// Name of the `PromptPack`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Exactly this version, as long as the pack keeps it; without it, the active one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub version: Option<String>,
    /// Which of the pack's versions to follow when none is named.
    #[serde(default)]
    pub track: Track,
}

/// Which of a pack's versions to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// The active one.
    #[default]
    Stable,
}

/// What clients talk to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Facade {
    /// How clients talk.
    #[serde(default, rename = "type")]
    pub type_: FacadeType,
    /// Where it listens.
    #[serde(default = "eight_thousand_and_eighty")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Who answers.
    #[serde(default)]
    pub handler: HandlerMode,
    /// Its image, instead of the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub image: Option<String>,
}

fn eight_thousand_and_eighty() -> i32 {
    8080
}

/// How clients talk to an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FacadeType {
    /// HTTP with streams.
    #[default]
    #[serde(rename = "websocket")]
    WebSocket,
    /// gRPC; the image must speak it.
    Grpc,
}

impl FacadeType {
    /// The word that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Grpc => "grpc",
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HandlerMode {
    /// The facade repeats what it is told.
    Echo,
    /// The facade tells a story of its own.
    Demo,
    /// The runtime.
    #[default]
    Runtime,
}

impl HandlerMode {
    /// The word that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Demo => "demo",
            Self::Runtime => "runtime",
        }
    }
}

/// What thinks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("self.type == 'promptkit' || has(self.image)")
        .message("image is required for every framework but promptkit: nobody else could say what runs")
        .field_path(".image"),
)]
pub struct Framework {
    /// Which it is.
    #[serde(rename = "type")]
    pub type_: FrameworkType,
    /// Tag of the operator's image that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), pattern(r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"))]
    pub version: Option<String>,
    /// Its image, instead of the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub image: Option<String>,
}

/// A framework for agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FrameworkType {
    /// `PromptKit`, or our own runtime in its place.
    PromptKit,
    /// `LangChain`.
    LangChain,
    /// `CrewAI`.
    CrewAi,
    /// `AutoGen`.
    AutoGen,
    /// Something else.
    Custom,
}

/// A `ToolRegistry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ToolRegistryReference {
    /// Name of the `ToolRegistry`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its namespace, which must be the runtime's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// An `AgentPolicy` in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct AgentPolicyReference {
    /// Name of the `AgentPolicy`.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// A Provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ProviderReference {
    /// Name of the Provider.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its namespace, which must be the referrer's own: its key is in a Secret there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Where conversations are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type == 'memory' || has(self.storeRef)")
        .message("storeRef is required when type is redis or postgres: name the Secret whose key url says where the store is")
        .field_path(".storeRef"),
)]
pub struct Session {
    /// What keeps them.
    #[serde(default, rename = "type")]
    pub type_: SessionType,
    /// The Secret whose key `url` says where the store is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_ref: Option<StoreReference>,
    /// How long a conversation is kept after its last word.
    #[serde(default = "a_day")]
    pub ttl: Duration,
}

impl Default for Session {
    fn default() -> Self {
        Self { type_: SessionType::default(), store_ref: None, ttl: a_day() }
    }
}

fn a_day() -> Duration {
    Duration("24h".into())
}

/// What keeps conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionType {
    /// The runtime's own memory; they go with its Pod.
    #[default]
    Memory,
    /// Redis.
    Redis,
    /// `PostgreSQL`.
    Postgres,
}

impl SessionType {
    /// The word that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct StoreReference {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// How the Pods of an agent are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.autoscaling)")
        .message("autoscaling is not supported: replicas says how many Pods there are")
        .field_path(".autoscaling"),
)]
pub struct RuntimeSettings {
    /// How many Pods; 0 stops the agent.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Refused, because nothing would come of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::json_schema_object")]
    pub autoscaling: Option<serde_json::Value>,
    /// Resources of the runtime's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::resources")]
    pub resources: Option<core::ResourceRequirements>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that the Pods tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::tolerations")]
    pub tolerations: Option<Vec<core::Toleration>>,
    /// Nodes and neighbours that the Pods want or avoid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::affinity")]
    pub affinity: Option<core::Affinity>,
    /// More volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::volumes")]
    pub volumes: Option<Vec<core::Volume>>,
    /// More mounts of the runtime's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::volume_mounts")]
    pub volume_mounts: Option<Vec<core::VolumeMount>>,
    /// More variables of the runtime's container; they come last, so they win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub extra_env: Option<Vec<core::EnvVar>>,
}

fn one() -> i32 {
    1
}

/// Files that prompts may show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Media {
    /// Where they are, in the runtime's container.
    #[serde(default = "media_path")]
    #[schemars(pattern(r"^/"))]
    pub base_path: String,
}

fn media_path() -> String {
    "/etc/omnia/media".into()
}

/// Where an agent stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RuntimePhase {
    /// Being made.
    #[default]
    Pending,
    /// It answers.
    Running,
    /// It cannot be made; the conditions say why.
    Failed,
}

/// How many Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Replicas {
    /// That should be there.
    #[serde(default)]
    pub desired: i32,
    /// That answer.
    #[serde(default)]
    pub ready: i32,
    /// That have answered for a while.
    #[serde(default)]
    pub available: i32,
}

/// What is known about an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRuntimeStatus {
    /// Pending, Running or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RuntimePhase>,
    /// How many Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// The version of the pack that it plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_version: Option<String>,
    /// Its part of the pack's canary, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<AgentCanary>,
    /// Where clients reach it, as host:port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_endpoint: Option<String>,
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `PromptPackReady`, `ToolRegistryReady`, `ProviderReady`, `DeploymentReady`, `ServiceReady`, `CanaryReady` and Ready, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
}
