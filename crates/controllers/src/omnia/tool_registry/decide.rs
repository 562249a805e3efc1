//! What is known about the tools of a registry. Pure.

use std::collections::{BTreeSet, HashMap};

use api::omnia::tools::input_schema;
use api::omnia::{
    DiscoveredTool, Handler, HandlerType, RegistryPhase, Tool, ToolAvailability, ToolRegistry, ToolRegistryStatus,
};
use engine::{Conditions, Decision, Event, Failure, FailureKind};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;
use tools::Found;

use super::locate::{Said, named_place, of_service, port, ready, selects, url};
use super::observe::Observed;
use super::probe;
use super::schemas::{restore, spill};
use crate::omnia::Settings;
use crate::omnia::report::is_news;

/// More tools than this are not listed: an object has its limits.
const MOST_TOOLS: usize = 2000;

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
    not_too_many(&mut tools);
    report(observed, settings, tools, &invalid, now)
}

/// What the schema of the resource cannot check.
fn check(handler: &Handler) -> Result<(), String> {
    if let Some(grpc) = handler.grpc_config.as_ref().filter(|_| handler.asks(handler.type_))
        && (grpc.tls_ca_path.is_some() || grpc.tls_cert_path.is_some() || grpc.tls_insecure_skip_verify)
    {
        return Err(
            "certificates are in the runtime's container, so the server cannot be asked from here: set tool".into()
        );
    }
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
    if probe::is_program(handler) {
        return program(observed, settings, handler);
    }
    let Some(selector) = &handler.selector else { return named(observed, settings, handler) };
    let found: Vec<&Service> =
        observed.services.iter().map(AsRef::as_ref).filter(|s| selects(selector, &namespace, s)).collect();
    if found.is_empty() {
        let labels: Vec<String> = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let place = selector.namespace.as_deref().unwrap_or(&namespace);
        let message = format!("no Service in namespace {place} has the labels {}", labels.join(", "));
        return lost(observed, handler, None, "ServiceNotFound", &message);
    }
    found.into_iter().flat_map(|service| selected(observed, settings, handler, service)).collect()
}

/// The tools of a program that is an MCP server.
fn program(observed: &Observed, settings: &Settings, handler: &Handler) -> Vec<DiscoveredTool> {
    match probe::known(observed, settings, handler) {
        probe::Known::Said => asked(observed, handler, HandlerType::Mcp, None),
        probe::Known::Never(why) => lost(observed, handler, None, "NoProgram", &why),
        probe::Known::Asking => {
            let known = observed.registry.status.iter().flat_map(|status| &status.discovered_tools);
            let known = known.filter(|tool| tool.handler_name.as_ref() == Some(&handler.name));
            let known = known.filter(|tool| tool.endpoint.is_some());
            let known: Vec<DiscoveredTool> = known.map(|tool| restore(tool, &observed.maps)).collect();
            if known.is_empty() {
                let message = "a Pod asks the program what tools it has".to_owned();
                let tool = unavailable(handler, handler_tool_name(handler), "Asking", message);
                return vec![DiscoveredTool { status: ToolAvailability::Unknown, ..tool }];
            }
            known
        }
    }
}

/// The tools of a handler whose endpoint is written down.
fn named(observed: &Observed, settings: &Settings, handler: &Handler) -> Vec<DiscoveredTool> {
    let namespace = observed.registry.namespace().unwrap_or_default();
    let tool = |reason: &str, message: String| match &handler.tool {
        Some(tool) => vec![gone(card(handler, tool, handler.endpoint().map(Into::into)), reason, message)],
        None => lost(observed, handler, None, reason, &message),
    };
    let Some(place) = named_place(handler) else {
        return tool("Invalid", "the endpoint is no URL with a host".into());
    };
    if let Some(Err(message)) = observed.places.get(&place) {
        return tool("Unreachable", message.clone());
    }
    let is_outside = observed.places.contains_key(&place);
    if let Some(name) = place.service(&namespace, &settings.cluster_domain).filter(|_| !is_outside) {
        match of_service(&name, &observed.services) {
            Some(service) => {
                if let Some(message) = not_ready(observed, service) {
                    return tool("NoReadyEndpoints", message);
                }
                if handler.asks(handler.type_)
                    && let Err(message) = port(service, Some(&place.port.to_string()))
                {
                    return tool("PortNotFound", message);
                }
            }
            None if name.certain || !handler.asks(handler.type_) => {
                return tool("ServiceNotFound", format!("there is no Service behind {}", place.host));
            }
            None => {}
        }
    }
    match &handler.tool {
        Some(tool) => vec![card(handler, tool, handler.endpoint().map(Into::into))],
        None => asked(observed, handler, handler.type_, None),
    }
}

/// The tools behind a Service that was found by its labels.
fn selected(observed: &Observed, settings: &Settings, handler: &Handler, service: &Service) -> Vec<DiscoveredTool> {
    let said = Said::by(service);
    let type_ = said.type_.and_then(|word| HandlerType::parse(&word)).unwrap_or(handler.type_);
    let is_named = type_ == HandlerType::Grpc && said.name.is_some();
    if is_named || !handler.asks(type_) {
        return vec![behind(observed, settings, handler, service)];
    }
    let wanted = handler.selector.as_ref().and_then(|selector| selector.port.as_deref());
    if let Err(message) = port(service, wanted) {
        return lost(observed, handler, Some(service), "PortNotFound", &message);
    }
    match not_ready(observed, service) {
        Some(message) => lost(observed, handler, Some(service), "NoReadyEndpoints", &message),
        None => asked(observed, handler, type_, Some(service)),
    }
}

/// What a server said about its tools.
fn asked(observed: &Observed, handler: &Handler, type_: HandlerType, service: Option<&Service>) -> Vec<DiscoveredTool> {
    if let Some(problem) = observed.locked.get(&handler.name) {
        return lost(observed, handler, service, problem.reason, &problem.message);
    }
    let of = service.map(|service| (service.namespace().unwrap_or_default(), service.name_any()));
    match observed.answers.get(&(handler.name.clone(), of)) {
        Some(Ok(found)) => found.iter().map(|found| discovered(handler, type_, found)).collect(),
        Some(Err(problem)) => lost(observed, handler, service, problem.reason, &problem.message),
        None => lost(observed, handler, service, "NoReadyEndpoints", "nobody is there who could be asked"),
    }
}

fn discovered(handler: &Handler, type_: HandlerType, found: &Found) -> DiscoveredTool {
    let tool = DiscoveredTool {
        name: found.name.clone(),
        handler_name: Some(handler.name.clone()),
        type_: Some(type_),
        description: Some(found.description.clone()).filter(|words| !words.is_empty()),
        input_schema: Some(found.input_schema.clone()).filter(|schema| !schema.is_null()),
        output_schema: found.output_schema.clone(),
        endpoint: Some(found.endpoint.clone()).filter(|endpoint| !endpoint.is_empty()),
        remote_name: found.remote_name.clone(),
        operation: found.operation.clone(),
        status: ToolAvailability::Available,
        ..DiscoveredTool::default()
    };
    match &found.problem {
        Some(problem) => gone(tool, problem.reason, problem.message.clone()),
        None => tool,
    }
}

/// The tools that a handler had when it was last asked, which are not to be had now; itself if it never had any.
fn lost(
    observed: &Observed,
    handler: &Handler,
    service: Option<&Service>,
    reason: &str,
    message: &str,
) -> Vec<DiscoveredTool> {
    let here = service.map(|s| format!("://{}.{}.svc.", s.name_any(), s.namespace().unwrap_or_default()));
    let known = observed.registry.status.iter().flat_map(|status| &status.discovered_tools);
    let known = known.filter(|tool| tool.handler_name.as_ref() == Some(&handler.name)).filter(|tool| {
        let endpoint = tool.endpoint.as_deref().unwrap_or_default();
        !endpoint.is_empty() && here.as_ref().is_none_or(|here| endpoint.contains(here))
    });
    let forgotten = |tool: &DiscoveredTool| DiscoveredTool { schema_ref: None, last_checked: None, ..tool.clone() };
    let lost: Vec<DiscoveredTool> = known.map(|tool| gone(forgotten(tool), reason, message.to_owned())).collect();
    if lost.is_empty() {
        return vec![unavailable(handler, handler_tool_name(handler), reason, message.to_owned())];
    }
    lost
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
                format!(
                    "Service {}: its tool-type {word:?} is none of http, grpc, openapi and mcp",
                    service.name_any()
                ),
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
    let found = DiscoveredTool { type_: Some(type_), ..card(handler, &tool, Some(endpoint)) };
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
        type_: Some(handler.type_),
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

pub(super) fn gone(mut tool: DiscoveredTool, reason: &str, message: String) -> DiscoveredTool {
    tool.status = ToolAvailability::Unavailable;
    tool.reason = Some(reason.into());
    tool.error = Some(message);
    tool
}

/// The first so many; for the rest their handlers are told.
fn not_too_many(tools: &mut Vec<DiscoveredTool>) {
    let Some(rest) = tools.len().checked_sub(MOST_TOOLS).filter(|rest| *rest > 0) else { return };
    let rest = tools.split_off(tools.len() - rest);
    let handlers: BTreeSet<Option<String>> = rest.into_iter().map(|tool| tool.handler_name).collect();
    tools.extend(handlers.into_iter().map(|handler| {
        let name = handler.as_deref().unwrap_or("tools").replace('-', "_");
        let message =
            format!("a registry holds {MOST_TOOLS} tools, and this handler's are too many: filter, or divide");
        gone(DiscoveredTool { name, handler_name: handler, ..DiscoveredTool::default() }, "TooManyTools", message)
    }));
}

/// Some names of many.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN).filter(|rest| *rest > 0) {
        Some(rest) => format!("{shown} and {rest} more"),
        None => shown,
    }
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
    let maps = spill(registry, &mut tools);
    since(&mut tools, &current, now);
    let available = tools.iter().filter(|tool| tool.status == ToolAvailability::Available).count();
    let phase = match available {
        0 if tools.iter().any(|tool| tool.status == ToolAvailability::Unknown) => RegistryPhase::Pending,
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
            conditions.set("ToolsDiscovered", true, "SomeUnavailable", format!("{words}; not: {}", some(&missing)))
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
    for map in &maps {
        decision.apply(map);
    }
    tell(registry, current.phase, phase, &missing, &mut decision);
    decision.status(registry, registry.status.as_ref(), &status);
    probe::keep(observed, settings, now, &mut decision);
    let wanted: BTreeSet<String> = maps.iter().map(ResourceExt::name_any).collect();
    for map in observed.maps.iter().filter(|map| !wanted.contains(&map.name_any())) {
        decision.delete(&**map);
    }
    if !observed.places.is_empty() || !observed.answers.is_empty() {
        // Nothing tells of what happens outside of the cluster, nor of what a server has new.
        decision.look_again(now + settings.recheck);
    }
    decision
}

/// Something that the registry needs could not be written.
pub(super) fn refused(observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
    let registry = &*observed.registry;
    let current = registry.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&current.conditions, registry.metadata.generation, now);
    conditions.set("ToolsDiscovered", false, failure.reason, &failure.message);
    let mut decision = Decision::none();
    if is_news(&current.conditions, "ToolsDiscovered", &failure.message) {
        decision.event(Event::warning(registry, failure.reason, "Discover", &failure.message));
    }
    let permanent = failure.kind == FailureKind::Permanent;
    let status = ToolRegistryStatus {
        phase: if permanent { Some(RegistryPhase::Failed) } else { current.phase.or(Some(RegistryPhase::Pending)) },
        observed_generation: registry.metadata.generation,
        conditions: conditions.finish(),
        ..current
    };
    decision.status(registry, registry.status.as_ref(), &status);
    decision
}

/// A tool that says the same as before has said it since then.
fn since(tools: &mut [DiscoveredTool], current: &ToolRegistryStatus, now: Timestamp) {
    let mark = |tool: &DiscoveredTool| (tool.name.clone(), tool.handler_name.clone(), tool.endpoint.clone());
    let before: HashMap<_, &DiscoveredTool> = current.discovered_tools.iter().map(|tool| (mark(tool), tool)).collect();
    for tool in tools {
        let same = before.get(&mark(tool)).filter(|before| before.status == tool.status && before.error == tool.error);
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
    let missing = some(missing);
    match after {
        RegistryPhase::Pending => return,
        RegistryPhase::Ready => decision.event(Event::normal(registry, "Ready", "Discover", "all tools are available")),
        RegistryPhase::Degraded => {
            decision.event(Event::warning(registry, "Degraded", "Discover", format!("not available: {missing}")))
        }
        RegistryPhase::Failed => {
            decision.event(Event::warning(registry, "Failed", "Discover", format!("no tool is available: {missing}")))
        }
    };
}
