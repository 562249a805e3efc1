//! Tools that agents may call, and who serves them.

mod mcp;
mod openapi;
mod status;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use mcp::{McpConfig, McpTransport};
pub use openapi::{Body, Location, OpenApiConfig, Operation, Parameter, Style};
pub use status::{Details, DiscoveredTool, RegistryPhase, SchemaReference, ToolAvailability, ToolRegistryStatus};

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
    /// The account of the Pods in which programs of this registry (MCP over stdio) are asked what tools they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
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
    validation = Rule::new("self.type != 'openapi' || has(self.openAPIConfig) || has(self.selector)")
        .message("openAPIConfig is required when type is openapi and no selector finds the Service")
        .field_path(".openAPIConfig"),
    validation = Rule::new("!has(self.openAPIConfig) || self.type == 'openapi'")
        .message("openAPIConfig is only for handlers of type openapi")
        .field_path(".openAPIConfig"),
    validation = Rule::new("has(self.selector) || !has(self.openAPIConfig) || has(self.openAPIConfig.specURL)")
        .message("openAPIConfig.specURL is required when no selector finds the Service")
        .field_path(".openAPIConfig.specURL"),
    validation = Rule::new("self.type != 'mcp' || has(self.mcpConfig) || has(self.selector)")
        .message("mcpConfig is required when type is mcp and no selector finds the Service")
        .field_path(".mcpConfig"),
    validation = Rule::new("!has(self.mcpConfig) || self.type == 'mcp'")
        .message("mcpConfig is only for handlers of type mcp")
        .field_path(".mcpConfig"),
    validation = Rule::new("!has(self.mcpConfig) || self.mcpConfig.transport == 'stdio' || has(self.selector) || has(self.mcpConfig.endpoint)")
        .message("mcpConfig.endpoint is required when no selector finds the Service")
        .field_path(".mcpConfig.endpoint"),
    validation = Rule::new("!has(self.mcpConfig) || self.mcpConfig.transport != 'stdio' || !has(self.selector)")
        .message("a program is not behind a Service: transport stdio takes no selector")
        .field_path(".selector"),
    validation = Rule::new("!has(self.tool) || self.type in ['http', 'grpc']")
        .message("tool is only for handlers of type http or grpc: the others say themselves what they serve")
        .field_path(".tool"),
    validation = Rule::new("self.type != 'http' || has(self.tool) || has(self.selector)")
        .message("tool is required when type is http and no selector finds Services: a URL does not describe itself")
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
    /// The tool. With a selector, what the Service's annotations leave out. A gRPC server without it is asked to describe
    /// itself (server reflection).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    /// Where and how to call over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_config: Option<HttpConfig>,
    /// Where and how to call over gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_config: Option<GrpcConfig>,
    /// Where the document is that describes the tools.
    #[serde(default, rename = "openAPIConfig", skip_serializing_if = "Option::is_none")]
    pub openapi_config: Option<OpenApiConfig>,
    /// Where the MCP server is, or which program is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_config: Option<McpConfig>,
    /// How long one call may take.
    #[serde(default = "thirty_seconds")]
    pub timeout: Duration,
    /// How often a call that failed is tried again.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10))]
    pub retries: i32,
}

impl Handler {
    /// The endpoint that it names itself: what is called, or what is asked for a description.
    pub fn endpoint(&self) -> Option<&str> {
        match self.type_ {
            HandlerType::Http => self.http_config.as_ref()?.endpoint.as_deref(),
            HandlerType::Grpc => self.grpc_config.as_ref()?.endpoint.as_deref(),
            HandlerType::Openapi => self.openapi_config.as_ref()?.spec_url.as_deref(),
            HandlerType::Mcp => self.mcp_config.as_ref()?.endpoint.as_deref(),
        }
    }

    /// Whether its server is asked what it has, when it speaks this.
    pub fn asks(&self, type_: HandlerType) -> bool {
        match type_ {
            HandlerType::Openapi | HandlerType::Mcp => true,
            HandlerType::Grpc => self.tool.is_none(),
            HandlerType::Http => false,
        }
    }

    /// The Secret with the credentials of its requests.
    pub fn auth_secret_ref(&self) -> Option<&SecretKey> {
        let http = self.http_config.as_ref().and_then(|config| config.auth_secret_ref.as_ref());
        let openapi = self.openapi_config.as_ref().and_then(|config| config.auth_secret_ref.as_ref());
        let mcp = self.mcp_config.as_ref().and_then(|config| config.auth_secret_ref.as_ref());
        http.or(openapi).or(mcp)
    }

    /// Headers of its requests.
    pub fn headers(&self) -> BTreeMap<String, String> {
        let http = self.http_config.as_ref().and_then(|config| config.headers.clone());
        let openapi = self.openapi_config.as_ref().and_then(|config| config.headers.clone());
        let mcp = self.mcp_config.as_ref().and_then(|config| config.headers.clone());
        http.or(openapi).or(mcp).unwrap_or_default()
    }

    /// How its requests say who they are.
    pub fn auth_type(&self) -> AuthType {
        let http = self.http_config.as_ref().map(|config| config.auth_type);
        let openapi = self.openapi_config.as_ref().map(|config| config.auth_type);
        let mcp = self.mcp_config.as_ref().map(|config| config.auth_type);
        http.or(openapi).or(mcp).unwrap_or_default()
    }
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
    /// One tool of a gRPC server, or as many as it has methods.
    Grpc,
    /// As many tools as an OpenAPI document has operations.
    Openapi,
    /// As many tools as an MCP server has.
    Mcp,
}

impl HandlerType {
    /// The word that users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Openapi => "openapi",
            Self::Mcp => "mcp",
        }
    }

    /// From the word that users write.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Http, Self::Grpc, Self::Openapi, Self::Mcp].into_iter().find(|type_| type_.as_str() == word)
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
