//! What is known about a registry and its tools.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HandlerType, Operation};

/// Where a registry stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RegistryPhase {
    /// Nobody has looked yet.
    #[default]
    Pending,
    /// All tools are available.
    Ready,
    /// Some are not.
    Degraded,
    /// None is.
    Failed,
}

/// Whether a tool can be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ToolAvailability {
    /// It can.
    Available,
    /// It cannot; `reason` and `error` say why.
    Unavailable,
    /// Nobody has looked yet.
    #[default]
    Unknown,
}

/// A tool that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredTool {
    /// What the model calls it.
    pub name: String,
    /// The handler that serves it; empty when nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_name: Option<String>,
    /// How it is called.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<HandlerType>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of what it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::json_schema_object")]
    pub input_schema: Option<Value>,
    /// JSON Schema of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::json_schema_object")]
    pub output_schema: Option<Value>,
    /// Where the rest of the description is, when it is too much for this list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_ref: Option<SchemaReference>,
    /// Where it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What its server calls it, where that is another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_name: Option<String>,
    /// How it is called, when it was found in an OpenAPI document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Available, Unavailable or Unknown.
    pub status: ToolAvailability,
    /// Why it is not available, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it is not available, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when the status is what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_checked: Option<Time>,
}

/// A key of a `ConfigMap` that holds the description, the schemas and the operation of a tool, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaReference {
    /// The `ConfigMap`, in the registry's namespace.
    pub config_map: String,
    /// The key in it.
    pub key: String,
    /// Digest of what is there: it changes when that does.
    pub digest: String,
}

/// What a `ConfigMap` holds about a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// What it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// What is known about a registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRegistryStatus {
    /// Pending, Ready, Degraded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RegistryPhase>,
    /// How many tools were found, available or not.
    #[serde(default)]
    pub discovered_tools_count: i32,
    /// The tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub discovered_tools: Vec<DiscoveredTool>,
    /// When the list of tools last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_discovery_time: Option<Time>,
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `HandlersValid` and `ToolsDiscovered`, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
}
