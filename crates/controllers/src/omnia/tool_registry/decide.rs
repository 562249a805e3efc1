//! What is known about the tools of a registry. Pure.

use std::collections::BTreeSet;

use api::omnia::tools::input_schema;
use api::omnia::{
    DiscoveredTool, Handler, HandlerType, RegistryPhase, Tool, ToolAvailability, ToolRegistry, ToolRegistryStatus,
};
use engine::{Conditions, Decision, Event};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use super::locate::{Said, named_place, port, ready, selects, url};
use super::observe::Observed;
use crate::omnia::Settings;

/// Decides.
pub fn decide(observed: &Observed, settings: &Settings, now: Timestamp) -> Decision {
    let registry = &*observed.registry;
    let mut tools = Vec::new();
    let mut invalid = Vec::new();
    for handler in &registry.spec.handlers {
        match check(handler) {
            Ok(()) => tools.extend(find(observed, settings, handler)),
            Err(message) => {
                tools.push(unavailable(handler, handler_tool_name(handler), "Invalid", message.clone()));
                invalid.push(format!("handler {:?}: {message}", handler.name));
            }
        }
    }
    tools.extend(registry.spec.tools.iter().map(|tool| DiscoveredTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        status: ToolAvailability::Unavailable,
        reason: Some("NoEndpoint".into()),
        error: Some("the tool is declared, and no handler serves it".into()),
        ..DiscoveredTool::default()
    }));
    once_each(&mut tools);
    report(observed, settings, tools, &invalid, now)
}

/// What the schema of the resource cannot check.
fn check(handler: &Handler) -> Result<(), String> {
    let Some(tool) = &handler.tool else { return Ok(()) };
    input_schema(&tool.input_schema).map_err(|error| format!("tool.inputSchema is no JSON Schema: {error}"))?;
    if let Some(schema) = &tool.output_schema {
        input_schema(schema).map_err(|error| format!("tool.outputSchema is no JSON Schema: {error}"))?;
    }
    Ok(())
}

/// The tools that a handler stands for.
fn find(observed: &Observed, settings: &Settings, handler: &Handler) -> Vec<DiscoveredTool> {
    let namespace = observed.registry.namespace().unwrap_or_default();
    match (&handler.selector, &handler.tool) {
        (Some(selector), _) => {
            let found: Vec<&Service> =
                observed.services.iter().map(AsRef::as_ref).filter(|s| selects(selector, &namespace, s)).collect();
            if found.is_empty() {
                let labels: Vec<String> =
                    selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let place = selector.namespace.as_deref().unwrap_or(&namespace);
                let message = format!("no Service in namespace {place} has the labels {}", labels.join(", "));
                return vec![unavailable(handler, handler_tool_name(handler), "ServiceNotFound", message)];
            }
            found.into_iter().map(|service| behind(observed, settings, handler, service)).collect()
        }
        (None, Some(tool)) => vec![explicit(observed, settings, handler, tool)],
        (None, None) => Vec::new(),
    }
}

/// A tool whose endpoint is written down.
fn explicit(observed: &Observed, settings: &Settings, handler: &Handler, tool: &Tool) -> DiscoveredTool {
    let namespace = observed.registry.namespace().unwrap_or_default();
    let http = handler.http_config.as_ref().and_then(|config| config.endpoint.clone());
    let grpc = handler.grpc_config.as_ref().and_then(|config| config.endpoint.clone());
    let mut found = card(handler, tool, http.or(grpc));
    let Some(place) = named_place(handler) else {
        return gone(found, "Invalid", "the endpoint is no URL with a host".into());
    };
    if let Some(answer) = observed.places.get(&place) {
        return match answer {
            Ok(()) => found,
            Err(message) => gone(found, "Unreachable", message.clone()),
        };
    }
    let name = place.service(&namespace, &settings.cluster_domain);
    let service = name.as_ref().and_then(|name| {
        let is =
            |s: &&std::sync::Arc<Service>| s.namespace().as_ref() == Some(&name.namespace) && s.name_any() == name.name;
        observed.services.iter().find(is)
    });
    match service {
        Some(service) => {
            if let Some(message) = not_ready(observed, service) {
                found = gone(found, "NoReadyEndpoints", message);
            }
            found
        }
        None => gone(found, "ServiceNotFound", format!("there is no Service behind {}", place.host)),
    }
}

/// A tool behind a Service that was found by its labels: the Service's annotations win over the handler's words.
fn behind(observed: &Observed, settings: &Settings, handler: &Handler, service: &Service) -> DiscoveredTool {
    let said = Said::by(service);
    let name = said.name.clone().unwrap_or_else(|| handler_tool_name(handler));
    let described = said.description.clone().or_else(|| handler.tool.as_ref().map(|tool| tool.description.clone()));
    let refuse = |reason: &str, message: String| unavailable(handler, name.clone(), reason, message);
    if !is_tool_name(&name) {
        return refuse("Invalid", format!("Service {}: {name:?} is no name for a tool", service.name_any()));
    }
    let type_ = match said.type_.as_deref().map(|word| (word, HandlerType::parse(word))) {
        None => handler.type_,
        Some((_, Some(type_))) => type_,
        Some((word, None)) => {
            return refuse(
                "Invalid",
                format!("Service {}: its tool-type {word:?} is neither http nor grpc", service.name_any()),
            );
        }
    };
    let selector = handler.selector.as_ref();
    let port = match port(service, selector.and_then(|selector| selector.port.as_deref())) {
        Ok(port) => port.port,
        Err(message) => return refuse("PortNotFound", message),
    };
    let Some(description) = described else {
        let message =
            format!("Service {} has no tool-description, and the handler no tool.description", service.name_any());
        return refuse("NoDescription", message);
    };
    let any = json!({ "type": "object" });
    let tool = Tool {
        name: name.clone(),
        description,
        input_schema: handler.tool.as_ref().map_or(any, |tool| tool.input_schema.clone()),
        output_schema: handler.tool.as_ref().and_then(|tool| tool.output_schema.clone()),
    };
    let endpoint = url(service, port, type_, said.path.as_deref(), &settings.cluster_domain);
    let found = card(handler, &tool, Some(endpoint));
    match not_ready(observed, service) {
        Some(message) => gone(found, "NoReadyEndpoints", message),
        None => found,
    }
}

fn not_ready(observed: &Observed, service: &Service) -> Option<String> {
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let external = service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    let none = !external && ready(&namespace, &name, &observed.slices) == 0;
    none.then(|| format!("Service {name} in namespace {namespace} has no ready endpoint"))
}

/// As packs allow them, and short enough for every model.
fn is_tool_name(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_');
    first && name.len() <= 64 && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn handler_tool_name(handler: &Handler) -> String {
    handler.tool.as_ref().map_or_else(|| handler.name.replace('-', "_"), |tool| tool.name.clone())
}

fn card(handler: &Handler, tool: &Tool, endpoint: Option<String>) -> DiscoveredTool {
    DiscoveredTool {
        name: tool.name.clone(),
        handler_name: Some(handler.name.clone()),
        description: Some(tool.description.clone()),
        input_schema: Some(tool.input_schema.clone()),
        output_schema: tool.output_schema.clone(),
        endpoint,
        status: ToolAvailability::Available,
        ..DiscoveredTool::default()
    }
}

fn unavailable(handler: &Handler, name: String, reason: &str, message: String) -> DiscoveredTool {
    let found = DiscoveredTool { name, handler_name: Some(handler.name.clone()), ..DiscoveredTool::default() };
    gone(found, reason, message)
}

fn gone(mut tool: DiscoveredTool, reason: &str, message: String) -> DiscoveredTool {
    tool.status = ToolAvailability::Unavailable;
    tool.reason = Some(reason.into());
    tool.error = Some(message);
    tool
}

/// A model knows tools by name, so that a name can mean only one: the first.
fn once_each(tools: &mut [DiscoveredTool]) {
    let mut taken = BTreeSet::new();
    for tool in tools.iter_mut() {
        if !taken.insert(tool.name.clone()) && tool.status == ToolAvailability::Available {
            let message = format!("another handler before this one serves a tool called {}", tool.name);
            *tool = gone(tool.clone(), "DuplicateName", message);
        }
    }
}

fn report(
    observed: &Observed,
    settings: &Settings,
    mut tools: Vec<DiscoveredTool>,
    invalid: &[String],
    now: Timestamp,
) -> Decision {
    let registry = &*observed.registry;
    let current = registry.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, registry.metadata.generation, now);
    since(&mut tools, &current, now);
    let available = tools.iter().filter(|tool| tool.status == ToolAvailability::Available).count();
    let phase = match available {
        0 => RegistryPhase::Failed,
        some if some == tools.len() => RegistryPhase::Ready,
        _ => RegistryPhase::Degraded,
    };
    if invalid.is_empty() {
        conditions.set("HandlersValid", true, "HandlersValid", "every handler can be used as it is written");
    } else {
        conditions.set("HandlersValid", false, "ValidationFailed", invalid.join("; "));
    }
    let missing: Vec<String> =
        tools.iter().filter(|tool| tool.status != ToolAvailability::Available).map(|tool| tool.name.clone()).collect();
    let words = format!("{available} of {} tools are available", tools.len());
    match phase {
        RegistryPhase::Ready => conditions.set("ToolsDiscovered", true, "AllAvailable", words),
        RegistryPhase::Degraded => {
            conditions.set("ToolsDiscovered", true, "SomeUnavailable", format!("{words}; not: {}", missing.join(", ")))
        }
        _ => conditions.set("ToolsDiscovered", false, "NoneAvailable", words),
    };
    let changed = current.discovered_tools != tools || current.last_discovery_time.is_none();
    let status = ToolRegistryStatus {
        phase: Some(phase),
        discovered_tools_count: i32::try_from(tools.len()).unwrap_or(i32::MAX),
        last_discovery_time: if changed { Some(Time(now)) } else { current.last_discovery_time.clone() },
        discovered_tools: tools,
        observed_generation: registry.metadata.generation,
        conditions: conditions.finish(),
    };
    let mut decision = Decision::none();
    tell(registry, current.phase, phase, &missing, &mut decision);
    decision.status(registry, registry.status.as_ref(), &status);
    if !observed.places.is_empty() {
        // Nothing tells of what happens outside of the cluster.
        decision.look_again(now + settings.recheck);
    }
    decision
}

/// A tool that says the same as before has said it since then.
fn since(tools: &mut [DiscoveredTool], current: &ToolRegistryStatus, now: Timestamp) {
    for tool in tools {
        let before = current.discovered_tools.iter().find(|before| {
            before.name == tool.name && before.handler_name == tool.handler_name && before.endpoint == tool.endpoint
        });
        let same = before.filter(|before| before.status == tool.status && before.error == tool.error);
        tool.last_checked = same.and_then(|before| before.last_checked.clone()).or(Some(Time(now)));
    }
}

fn tell(
    registry: &ToolRegistry,
    before: Option<RegistryPhase>,
    after: RegistryPhase,
    missing: &[String],
    decision: &mut Decision,
) {
    if before == Some(after) {
        return;
    }
    let missing = missing.join(", ");
    match after {
        RegistryPhase::Ready => decision.event(Event::normal(registry, "Ready", "Discover", "all tools are available")),
        RegistryPhase::Degraded => {
            decision.event(Event::warning(registry, "Degraded", "Discover", format!("not available: {missing}")))
        }
        _ => decision.event(Event::warning(registry, "Failed", "Discover", format!("no tool is available: {missing}"))),
    };
}
