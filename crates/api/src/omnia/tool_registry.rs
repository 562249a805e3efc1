use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::Duration;

/// Tools that agents may call.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "omnia.altairalabs.ai",
    version = "v1alpha1",
    kind = "ToolRegistry",
    plural = "toolregistries",
    shortname = "tr",
    category = "omnia",
    category = "orrery",
    namespaced,
    status = "ToolRegistryStatus",
    derive = "PartialEq",
    doc = "Tools that agents may call: who serves them, what they take, and whether they can be had.",
    printcolumn(name = "Tools", type_ = "integer", json_path = ".status.discoveredToolsCount"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.handlers) && size(self.handlers) > 0) || (has(self.tools) && size(self.tools) > 0)")
        .message("set at least one of handlers (tools that someone serves) and tools (tools that nobody serves yet)")
        .field_path(".handlers"),
)]
pub struct ToolRegistrySpec {
    /// Who serves tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_string()]))]
    #[schemars(length(max = 500))]
    pub handlers: Vec<Handler>,
    /// Tools that are declared and that nobody serves (yet): listed as Unavailable, reason `NoEndpoint`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_string()]))]
    #[schemars(length(max = 500))]
    pub tools: Vec<DeclaredTool>,
}

/// Someone who serves tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'http' || has(self.httpConfig) || has(self.selector)")
        .message("httpConfig is required when type is http and no selector finds the Service")
        .field_path(".httpConfig"),
    validation = Rule::new("self.type != 'grpc' || has(self.grpcConfig) || has(self.selector)")
        .message("grpcConfig is required when type is grpc and no selector finds the Service")
        .field_path(".grpcConfig"),
    validation = Rule::new("has(self.tool) || has(self.selector)")
        .message("tool is required when type is http or grpc and no selector finds Services: neither describes itself")
        .field_path(".tool"),
    validation = Rule::new("!has(self.httpConfig) || self.type == 'http'")
        .message("httpConfig is only for handlers of type http")
        .field_path(".httpConfig"),
    validation = Rule::new("!has(self.grpcConfig) || self.type == 'grpc'")
        .message("grpcConfig is only for handlers of type grpc")
        .field_path(".grpcConfig"),
    validation = Rule::new("has(self.selector) || !has(self.httpConfig) || has(self.httpConfig.endpoint)")
        .message("httpConfig.endpoint is required when no selector finds the Service")
        .field_path(".httpConfig.endpoint"),
    validation = Rule::new("has(self.selector) || !has(self.grpcConfig) || has(self.grpcConfig.endpoint)")
        .message("grpcConfig.endpoint is required when no selector finds the Service")
        .field_path(".grpcConfig.endpoint"),
)]
pub struct Handler {
    /// Name of the handler, unique in the registry.
    #[schemars(length(min = 1, max = 63), pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// How its tools are called.
    #[serde(rename = "type")]
    pub type_: HandlerType,
    /// Finds the Services that serve the tool, instead of an endpoint written down here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<ServiceSelector>,
    /// The tool. With a selector, what the Service's annotations leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    /// Where and how to call over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_config: Option<HttpConfig>,
    /// Where and how to call over gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_config: Option<GrpcConfig>,
    /// How long one call may take.
    #[serde(default = "thirty_seconds")]
    pub timeout: Duration,
    /// How often a call that failed is tried again.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10))]
    pub retries: i32,
}

fn thirty_seconds() -> Duration {
    Duration("30s".into())
}

/// How tools are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HandlerType {
    /// One tool at one URL.
    Http,
    /// One tool of a gRPC server.
    Grpc,
}

impl HandlerType {
    /// The word that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }

    /// From the word that users write.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Http, Self::Grpc].into_iter().find(|type_| type_.as_str() == word)
    }
}

/// Finds Services by their labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSelector {
    /// Labels that a Service must have, all of them.
    #[schemars(extend("minProperties" = 1))]
    pub match_labels: BTreeMap<String, String>,
    /// Where to look; by default in the registry's own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Name or number of the Service's port; by default its first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub port: Option<String>,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// What the model calls it.
    #[schemars(length(min = 1, max = 64), pattern(r"^[a-zA-Z_][a-zA-Z0-9_]*$"))]
    pub name: String,
    /// What it does, for the model.
    #[schemars(length(min = 1))]
    pub description: String,
    /// JSON Schema of what it takes.
    #[schemars(schema_with = "crate::schema::json_schema_object")]
    pub input_schema: Value,
    /// JSON Schema of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::json_schema_object")]
    pub output_schema: Option<Value>,
}

/// A tool that nobody serves (yet).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredTool {
    /// What the model calls it.
    #[schemars(length(min = 1, max = 64), pattern(r"^[a-zA-Z_][a-zA-Z0-9_]*$"))]
    pub name: String,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of what it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::json_schema_object")]
    pub input_schema: Option<Value>,
}

/// Where and how to call over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(self.authType in ['bearer', 'basic']) || has(self.authSecretRef)")
        .message("authSecretRef is required when authType is bearer or basic")
        .field_path(".authSecretRef"),
)]
pub struct HttpConfig {
    /// The URL; left out when a selector finds the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), pattern(r"^https?://[^/]+"))]
    pub endpoint: Option<String>,
    /// The method.
    #[serde(default)]
    pub method: HttpMethod,
    /// Headers of every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Content type of the body.
    #[serde(default = "application_json")]
    pub content_type: String,
    /// How calls say who they are.
    #[serde(default)]
    pub auth_type: AuthType,
    /// The Secret with the token (bearer) or with user:password (basic).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_secret_ref: Option<SecretKey>,
}

fn application_json() -> String {
    "application/json".into()
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Arguments go into the query.
    Get,
    /// Arguments are the body.
    #[default]
    Post,
    /// Arguments are the body.
    Put,
    /// Arguments are the body.
    Patch,
    /// Arguments go into the query.
    Delete,
}

/// How calls say who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// They do not.
    #[default]
    None,
    /// With a token.
    Bearer,
    /// With a name and a password.
    Basic,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct SecretKey {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1))]
    pub key: String,
}

/// Where and how to call over gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct GrpcConfig {
    /// The server as host:port; left out when a selector finds the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), pattern(r"^[^/:]+:[0-9]+$"))]
    pub endpoint: Option<String>,
    /// Whether the connection is encrypted.
    #[serde(default)]
    pub tls: bool,
    /// Path of a client certificate, in the runtime's container.
    #[serde(default, rename = "tlsCertPath", skip_serializing_if = "Option::is_none")]
    pub tls_cert_path: Option<String>,
    /// Path of its key.
    #[serde(default, rename = "tlsKeyPath", skip_serializing_if = "Option::is_none")]
    pub tls_key_path: Option<String>,
    /// Path of the authority's certificate.
    #[serde(default, rename = "tlsCAPath", skip_serializing_if = "Option::is_none")]
    pub tls_ca_path: Option<String>,
    /// Trust any certificate. Only for tests.
    #[serde(default, rename = "tlsInsecureSkipVerify")]
    pub tls_insecure_skip_verify: bool,
}

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
    /// Where it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
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
