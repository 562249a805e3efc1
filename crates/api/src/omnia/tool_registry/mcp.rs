//! Tools that an MCP server has.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuthType, SecretKey};

/// Where an MCP server is, or which program is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.transport != 'stdio' || (has(self.command) && !has(self.endpoint))")
        .message("stdio is a program: command is required, and endpoint is not used")
        .field_path(".command"),
    validation = Rule::new("self.transport == 'stdio' || !(has(self.command) || has(self.args) || has(self.workDir) || has(self.env) || has(self.image))")
        .message("command, args, workDir, env and image are only for transport stdio")
        .field_path(".command"),
    validation = Rule::new("self.transport != 'stdio' || !(has(self.headers) || has(self.authSecretRef))")
        .message("a program gets no headers: give it variables in env")
        .field_path(".headers"),
    validation = Rule::new("!(self.authType in ['bearer', 'basic']) || has(self.authSecretRef)")
        .message("authSecretRef is required when authType is bearer or basic")
        .field_path(".authSecretRef"),
)]
pub struct McpConfig {
    /// How it speaks.
    pub transport: McpTransport,
    /// Its URL; with a selector, `/mcp` or `/sse` of the Service unless its annotation says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), pattern(r"^https?://[^/]+"))]
    pub endpoint: Option<String>,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub args: Vec<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// Its variables. It gets no others, besides PATH and HOME.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The image that has the program, to find out what tools it has; by default the platform's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub image: Option<String>,
    /// Headers of every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// How requests say who they are.
    #[serde(default)]
    pub auth_type: AuthType,
    /// The Secret with the token (bearer) or with user:password (basic).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_secret_ref: Option<SecretKey>,
}

/// How an MCP server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpTransport {
    /// HTTP, a request for each message.
    #[default]
    StreamableHttp,
    /// HTTP with a stream of events, as it was before.
    Sse,
    /// Standard input and output of a program.
    Stdio,
}
