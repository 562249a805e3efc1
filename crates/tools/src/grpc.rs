//! Tools of a gRPC server: found by asking it for its own description, and called with JSON for messages.

mod reflection;
mod schema;
mod tls;
mod wire;

use std::time::Duration;

use api::omnia::GrpcConfig;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MethodDescriptor, SerializeOptions};
use serde_json::Value;
use url::Url;

use crate::client::{self, Bounds, Client, Error};
use crate::found::{MOST_TOOLS, tool_name};
use crate::{Found, Problem};

/// How much of a server's description is read.
const MOST_OF_A_DESCRIPTION: usize = 8 << 20;
/// Services that every server has, and that are no tools.
const PLUMBING: &[&str] = &["grpc.reflection.", "grpc.health.", "grpc.channelz."];
/// What serves a tool whose schema is written down: the contract of Omnia's own tool servers.
const EXECUTE: &str = "omnia.tools.v1.ToolService/Execute";

/// A call by that contract.
#[derive(Clone, PartialEq, prost::Message)]
struct ToolRequest {
    #[prost(string, tag = "1")]
    tool_name: String,
    #[prost(string, tag = "2")]
    arguments_json: String,
}

/// The answer.
#[derive(Clone, PartialEq, prost::Message)]
struct ToolResponse {
    #[prost(string, tag = "1")]
    result_json: String,
    #[prost(bool, tag = "2")]
    is_error: bool,
    #[prost(string, tag = "3")]
    error_message: String,
}

impl Client {
    /// The tools of a gRPC server that describes itself.
    pub async fn grpc_methods(&self, endpoint: &str, tls: bool, patience: Duration) -> Result<Vec<Found>, Problem> {
        let base = base(endpoint, tls)?;
        let asked = self.describe(&base, None, MOST_OF_A_DESCRIPTION);
        let pool = tokio::time::timeout(patience, asked).await.unwrap_or(Err(Error::Timeout(patience)))?;
        let endpoint = endpoint.to_owned();
        let read = tokio::task::spawn_blocking(move || methods(&pool, &endpoint)).await;
        read.unwrap_or_else(|error| Err(Problem::new("InvalidAnswer", format!("the methods cannot be read: {error}"))))
    }

    /// Calls a tool of a gRPC server: a method, or else what Omnia's own tool servers serve.
    pub(crate) async fn grpc_call(
        &self,
        tool: &str,
        method: Option<&str>,
        endpoint: &str,
        config: &GrpcConfig,
        arguments: &Value,
        bounds: Bounds,
    ) -> Result<String, Error> {
        let base = base(endpoint, config.tls)?;
        let trusting = tls::config(config)?.map(|tls| self.with_tls(tls));
        let client = trusting.as_ref().unwrap_or(self);
        let asked = async {
            let Some(method) = method else { return client.execute(&base, tool, arguments, bounds).await };
            let service = method.split('/').next().unwrap_or_default();
            let pool = client.describe(&base, Some(service), MOST_OF_A_DESCRIPTION).await?;
            let known = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
            let known: Vec<MethodDescriptor> = known.filter(|known| path(known) == method).collect();
            let missing = || Error::Invalid(format!("the server has no method {method}"));
            let known = known.first().ok_or_else(missing)?;
            let unfit = |error: serde_json::Error| Error::Arguments(error.to_string());
            let strict = DeserializeOptions::new().deny_unknown_fields(true);
            let message = DynamicMessage::deserialize_with_options(known.input(), arguments, &strict).map_err(unfit)?;
            let answer = client.unary(&base, method, &message.encode_to_vec(), bounds.bytes).await?;
            let odd = |error: prost::DecodeError| Error::Odd(format!("the answer is not what was described: {error}"));
            let answer = DynamicMessage::decode(known.output(), answer).map_err(odd)?;
            let all = SerializeOptions::new().skip_default_fields(false);
            let mut text = Vec::new();
            let mut writer = serde_json::Serializer::new(&mut text);
            answer
                .serialize_with_options(&mut writer, &all)
                .map_err(|error| Error::Odd(format!("the answer cannot be written as JSON: {error}")))?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        tokio::time::timeout(bounds.time, asked).await.unwrap_or(Err(Error::Timeout(bounds.time)))
    }

    async fn execute(&self, base: &Url, tool: &str, arguments: &Value, bounds: Bounds) -> Result<String, Error> {
        let request = ToolRequest { tool_name: tool.to_owned(), arguments_json: arguments.to_string() };
        let answer = self.unary(base, EXECUTE, &request.encode_to_vec(), bounds.bytes).await?;
        let answer = ToolResponse::decode(answer)
            .map_err(|error| Error::Odd(format!("the answer is no ToolResponse: {error}")))?;
        if answer.is_error { Err(Error::Failed(answer.error_message)) } else { Ok(answer.result_json) }
    }

    async fn unary(&self, base: &Url, method: &str, message: &[u8], most: usize) -> Result<bytes::Bytes, Error> {
        let mut answers = self.exchange(base, method, &[message], most).await?;
        match answers.len() {
            1 => Ok(answers.remove(0)),
            count => Err(Error::Odd(format!("the server gave {count} answers instead of one"))),
        }
    }
}

/// host:port, or what a Service is called, as a URL.
fn base(endpoint: &str, tls: bool) -> Result<Url, Error> {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    client::url(&format!("{}://{authority}/", if tls { "https" } else { "http" }))
}

fn path(method: &MethodDescriptor) -> String {
    format!("{}/{}", method.parent_service().full_name(), method.name())
}

fn methods(pool: &DescriptorPool, endpoint: &str) -> Result<Vec<Found>, Problem> {
    let services = pool.services().filter(|service| {
        let name = service.full_name();
        !PLUMBING.iter().any(|plumbing| name.starts_with(plumbing))
    });
    let mut found = Vec::new();
    for service in services {
        for method in service.methods() {
            if found.len() == MOST_TOOLS {
                return Err(Problem::new("TooManyTools", format!("the server has more than {MOST_TOOLS} methods")));
            }
            found.push(tool(&method, endpoint).checked());
        }
    }
    if found.is_empty() {
        return Err(Problem::new("NoTools", "the server has no methods besides those that describe it"));
    }
    Ok(found)
}

fn tool(method: &MethodDescriptor, endpoint: &str) -> Found {
    let (path, input, output) = (path(method), method.input(), method.output());
    let streams = method.is_client_streaming() || method.is_server_streaming();
    let mut found = Found {
        name: tool_name(&path),
        description: format!("gRPC method {path}: takes {}, answers {}.", input.full_name(), output.full_name()),
        endpoint: endpoint.to_owned(),
        ..Found::default()
    };
    if streams {
        found.problem = Some(Problem::new("Unsupported", "methods that stream are not called"));
    }
    (found.input_schema, found.output_schema) = (schema::of(&input), Some(schema::of(&output)));
    found.remote_name = Some(path);
    found
}
