//! `tools.yaml`: what a runtime is told about its tools. Written by the controller, read by the runtime.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AuthType, GrpcConfig, HandlerType, HttpMethod, McpTransport, Operation};

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolsFile {
    /// One entry a tool.
    #[serde(default)]
    pub handlers: Vec<ToolEntry>,
}

/// One tool: what the model sees of it, and how it is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolEntry {
    /// Name of the handler.
    pub name: String,
    /// How it is called.
    #[serde(rename = "type")]
    pub type_: HandlerType,
    /// The registry it comes from.
    pub registry: String,
    /// Where it is.
    pub endpoint: String,
    /// What the model sees.
    pub tool: ToolCard,
    /// How it is called over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_config: Option<HttpCall>,
    /// How it is called over gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_config: Option<GrpcConfig>,
    /// The method of a gRPC server, as `package.Service/Method`; without it, it is called by Omnia's own contract for tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_method: Option<String>,
    /// How tools of an MCP server are called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_config: Option<McpCall>,
    /// How operations of an OpenAPI document are called.
    #[serde(default, rename = "openAPIConfig", skip_serializing_if = "Option::is_none")]
    pub openapi_config: Option<OperationCall>,
    /// How long one call may take.
    pub timeout: String,
    /// How often a call that failed is tried again.
    #[serde(default)]
    pub retries: i32,
    /// Policies that would deny it if they were enforced: each call is reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audited_by: Vec<String>,
}

/// What the model sees of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCard {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of what it takes.
    pub input_schema: Value,
    /// JSON Schema of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// How a tool is called over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpCall {
    /// The method.
    pub method: HttpMethod,
    /// Content type of the body.
    pub content_type: String,
    /// What every call has.
    #[serde(flatten)]
    pub access: Access,
}

/// How an operation of an OpenAPI document is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationCall {
    /// Which argument goes where.
    pub operation: Operation,
    /// What every call has.
    #[serde(flatten)]
    pub access: Access,
}

/// How a tool of an MCP server is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCall {
    /// How the server speaks.
    pub transport: McpTransport,
    /// What the server calls the tool.
    pub tool: String,
    /// The program, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// Its variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What every request has.
    #[serde(flatten)]
    pub access: Access,
}

/// What every request to a server has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// Headers of every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How requests say who they are.
    #[serde(default)]
    pub auth_type: AuthType,
    /// The environment variable that holds the token, or user:password. A secret is never in this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_env: Option<String>,
}

/// Reads a JSON Schema that a user or a tool server wrote. It may refer to itself, never to anything elsewhere.
pub fn input_schema(schema: &Value) -> Result<Validator, String> {
    jsonschema::validator_for(schema).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_may_refer_to_itself_and_to_nothing_elsewhere() {
        let tree =
            json!({ "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } });
        let tree = input_schema(&tree).expect("a tree is fine");
        assert!(tree.is_valid(&json!({ "children": [{ "children": [] }] })));
        assert!(!tree.is_valid(&json!({ "children": [{ "children": 1 }] })));
        assert!(input_schema(&json!({ "$ref": "http://127.0.0.1:1/schema.json" })).is_err());
        assert!(input_schema(&json!({ "type": "no such type" })).is_err());
    }
}
