//! The tools of an agent: what its registry has available, less what its policies deny.

use std::collections::BTreeMap;

use api::omnia::tools::{Access, HttpCall, McpCall, OperationCall, ToolCard, ToolEntry, ToolsFile};
use api::omnia::{
    Details, DiscoveredTool, Handler, HandlerType, HttpConfig, OnFailure, PolicyMode, ToolAvailability, ToolRegistry,
    names,
};
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar};
use kube::ResourceExt;
use serde_json::json;

use super::observe::Observed;
use super::plan::Plan;
use crate::omnia::owner::{labels, owned};
use crate::pod::from_secret;

/// The tools of an agent, and those it does not get.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tools {
    pub(super) file: ToolsFile,
    /// Names with the reason why the agent does not get them.
    pub(super) left_out: Vec<String>,
}

/// Chooses. `None` when the agent names no registry.
pub(super) fn choose(observed: &Observed, plan: &Plan) -> Option<Tools> {
    let registry = observed.registry.as_ref()?;
    let mut tools = Tools::default();
    let mut filled = 0;
    for tool in registry.status.iter().flat_map(|status| &status.discovered_tools) {
        let entry = whole(observed, tool).and_then(|tool| entry(observed, plan, registry, &tool));
        match entry.and_then(|entry| fits(entry, &mut filled)) {
            Ok(entry) => tools.file.handlers.push(entry),
            Err(why) => tools.left_out.push(format!("{} ({why})", tool.name)),
        }
    }
    Some(tools)
}

/// A tool with what did not fit into the registry's status.
fn whole(observed: &Observed, tool: &DiscoveredTool) -> Result<DiscoveredTool, String> {
    let Some(reference) = &tool.schema_ref else { return Ok(tool.clone()) };
    let map = observed.schemas.iter().find(|map| map.name_any() == reference.config_map);
    let text = map.and_then(|map| map.data.as_ref()?.get(&reference.key));
    let details: Option<Details> = text.and_then(|text| serde_json::from_str(text).ok());
    let missing = || format!("ConfigMap {} does not say what it takes", reference.config_map);
    let details = details.ok_or_else(missing)?;
    Ok(DiscoveredTool {
        description: details.description,
        operation: details.operation,
        input_schema: details.input_schema,
        output_schema: details.output_schema,
        ..tool.clone()
    })
}

/// All tools of an agent are in one `ConfigMap`, which can hold a mebibyte.
fn fits(entry: ToolEntry, filled: &mut usize) -> Result<ToolEntry, String> {
    const HOLDS: usize = 900 << 10;
    let weight = serde_saphyr::to_string(&entry).map_or(usize::MAX, |text| text.len());
    if filled.saturating_add(weight) > HOLDS {
        return Err(format!("the tools of an agent may take {} KiB, and this one is too much", HOLDS >> 10));
    }
    *filled += weight;
    Ok(entry)
}

fn entry(
    observed: &Observed,
    plan: &Plan,
    registry: &ToolRegistry,
    tool: &DiscoveredTool,
) -> Result<ToolEntry, String> {
    let handler = tool.handler_name.as_ref().and_then(|name| registry.spec.handlers.iter().find(|h| h.name == *name));
    let (Some(handler), Some(endpoint), ToolAvailability::Available) = (handler, &tool.endpoint, tool.status) else {
        return Err(tool.reason.clone().unwrap_or_else(|| "not available".into()));
    };
    let audited_by = judge(observed, plan, &registry.name_any(), &tool.name)?;
    // A Service may say that it speaks something else than its handler.
    let type_ = tool.type_.unwrap_or(handler.type_);
    let grpc = (type_ == HandlerType::Grpc).then(|| handler.grpc_config.clone().unwrap_or_default());
    if plan.runtime.own && grpc.as_ref().is_some_and(|grpc| grpc.tls_insecure_skip_verify) {
        return Err("the built-in runtime skips no verification: name the authority in grpcConfig.tlsCAPath".into());
    }
    Ok(ToolEntry {
        name: handler.name.clone(),
        type_,
        registry: registry.name_any(),
        endpoint: endpoint.clone(),
        tool: ToolCard {
            name: tool.name.clone(),
            description: tool.description.clone().unwrap_or_default(),
            input_schema: tool.input_schema.clone().unwrap_or_else(|| json!({ "type": "object" })),
            output_schema: tool.output_schema.clone(),
        },
        http_config: (type_ == HandlerType::Http).then(|| http_call(handler)),
        grpc_method: grpc.as_ref().and(tool.remote_name.clone()),
        grpc_config: grpc,
        mcp_config: (type_ == HandlerType::Mcp).then(|| mcp_call(handler, tool)),
        openapi_config: tool.operation.clone().map(|operation| OperationCall { operation, access: access(handler) }),
        timeout: handler.timeout.0.clone(),
        retries: handler.retries,
        audited_by,
    })
}

/// Whether the policies allow a tool: all must, and one that cannot be enforced says what then. The answer is the
/// policies that only report.
fn judge(observed: &Observed, plan: &Plan, registry: &str, tool: &str) -> Result<Vec<String>, String> {
    let mut audited = Vec::new();
    for policy in &observed.policies {
        let (name, spec) = (policy.name_any(), &policy.spec);
        if spec.mode == PolicyMode::Permissive {
            if !spec.allows(registry, tool) {
                audited.push(name);
            }
            continue;
        }
        if !spec.allows(registry, tool) {
            return Err(format!("denied by AgentPolicy {name}"));
        }
        if !plan.runtime.own && spec.on_failure == OnFailure::Deny {
            return Err(format!("AgentPolicy {name} cannot be enforced on this image, and denies then"));
        }
    }
    Ok(audited)
}

fn http_call(handler: &Handler) -> HttpCall {
    let usual = || serde_json::from_value(json!({})).expect("every field of HttpConfig has a default");
    let config: HttpConfig = handler.http_config.clone().unwrap_or_else(usual);
    HttpCall { method: config.method, content_type: config.content_type, access: access(handler) }
}

fn mcp_call(handler: &Handler, tool: &DiscoveredTool) -> McpCall {
    let config = handler.mcp_config.clone().unwrap_or_default();
    McpCall {
        transport: config.transport,
        tool: tool.remote_name.clone().unwrap_or_else(|| tool.name.clone()),
        command: config.command,
        args: config.args,
        work_dir: config.work_dir,
        env: config.env,
        access: access(handler),
    }
}

/// What every request of a handler has.
fn access(handler: &Handler) -> Access {
    Access {
        headers: handler.headers(),
        auth_type: handler.auth_type(),
        auth_env: handler.auth_secret_ref().map(|_| auth_variable(&handler.name)),
    }
}

/// The variable that holds a handler's credentials.
fn auth_variable(handler: &str) -> String {
    format!("OMNIA_TOOL_AUTH_{}", handler.to_ascii_uppercase().replace('-', "_"))
}

/// The credentials of a registry's handlers, as variables of the runtime: they are in no file.
pub(super) fn auth_variables(registry: &ToolRegistry) -> Vec<EnvVar> {
    let secret = |handler: &Handler| {
        let secret = handler.auth_secret_ref()?;
        Some(from_secret(&auth_variable(&handler.name), &secret.name, &secret.key, true))
    };
    registry.spec.handlers.iter().filter_map(secret).collect()
}

/// The file, as an object.
pub(super) fn config_map(observed: &Observed, tools: &Tools) -> ConfigMap {
    let runtime = &*observed.runtime;
    let text = serde_saphyr::to_string(&tools.file).expect("the tools are plain data");
    let name = runtime.name_any();
    ConfigMap {
        metadata: owned(runtime, names::tools_config_map(&name), labels("tools", &name)),
        data: Some(BTreeMap::from([(names::TOOLS_KEY.to_owned(), text)])),
        ..ConfigMap::default()
    }
}
