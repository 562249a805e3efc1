//! The variables of an agent's containers: the contract that every runtime reads, in an order that never changes by itself.

use api::omnia::names::TOOLS_KEY;
use api::omnia::routing::ROUTING_KEY;
use api::omnia::{AgentRuntime, HandlerMode, SessionType};
use k8s_openapi::api::core::v1::EnvVar;
use kube::ResourceExt;

use super::observe::Observed;
use super::plan::{Plan, Thinker, is_mock};
use super::router;
use super::tools::auth_variables;
use crate::pod::{from_secret, variable};

/// Where the facade says how it is.
pub(super) const FACADE_HEALTH_PORT: i32 = 8081;
/// Where the facade reaches the runtime.
pub(super) const RUNTIME_PORT: i32 = 9000;
/// Where the runtime says how it is.
pub(super) const RUNTIME_HEALTH_PORT: i32 = 9001;
/// Where the pack is.
pub(super) const PACK_DIRECTORY: &str = "/etc/omnia/pack";
/// Where the tools are.
pub(super) const TOOLS_DIRECTORY: &str = "/etc/omnia/tools";

/// What both containers are told.
fn both(runtime: &AgentRuntime, plan: &Plan, health: i32) -> Vec<EnvVar> {
    let mut env = vec![
        variable("OMNIA_AGENT_NAME", runtime.name_any()),
        variable("OMNIA_NAMESPACE", runtime.namespace().unwrap_or_default()),
        variable("OMNIA_PROMPTPACK_NAME", &runtime.spec.prompt_pack_ref.name),
    ];
    // A runtime that follows the pack by itself would be told of a version that is soon another.
    if !plan.reloads() {
        env.push(variable("OMNIA_PROMPTPACK_VERSION", &plan.version.version));
    }
    env.push(variable("OMNIA_HEALTH_PORT", health.to_string()));
    env
}

/// What the facade is told.
pub(super) fn of_facade(observed: &Observed, plan: &Plan) -> Vec<EnvVar> {
    let runtime = &*observed.runtime;
    let facade = &runtime.spec.facade;
    let mut env = both(runtime, plan, FACADE_HEALTH_PORT);
    env.push(variable("OMNIA_FACADE_TYPE", facade.type_.as_str()));
    env.push(variable("OMNIA_FACADE_PORT", facade.port.to_string()));
    env.push(variable("OMNIA_HANDLER_MODE", facade.handler.as_str()));
    if facade.handler == HandlerMode::Runtime {
        env.push(variable("OMNIA_RUNTIME_ADDRESS", format!("localhost:{RUNTIME_PORT}")));
    }
    env.extend(session(runtime, "OMNIA_SESSION_STORE_URL"));
    if plan.facade.own {
        env.push(routing());
    }
    env
}

/// Where both containers of ours learn that a router stands in front, and where the other side is.
fn routing() -> EnvVar {
    variable("OMNIA_ROUTING_PATH", format!("{}/{ROUTING_KEY}", router::DIRECTORY))
}

/// What the runtime is told.
pub(super) fn of_runtime(observed: &Observed, plan: &Plan) -> Vec<EnvVar> {
    let runtime = &*observed.runtime;
    let spec = &runtime.spec;
    let mut env = both(runtime, plan, RUNTIME_HEALTH_PORT);
    env.push(variable("OMNIA_PROMPTPACK_PATH", format!("{PACK_DIRECTORY}/{}", api::omnia::names::PACK_KEY)));
    env.push(variable("OMNIA_PROMPT_NAME", &plan.prompt));
    env.push(variable("OMNIA_GRPC_PORT", RUNTIME_PORT.to_string()));
    if let Some(model) = &plan.provider {
        env.extend(provider(model));
    }
    if let Some(reference) = &spec.tool_registry_ref {
        env.push(variable("OMNIA_TOOLREGISTRY_NAME", &reference.name));
        env.push(variable("OMNIA_TOOLREGISTRY_NAMESPACE", runtime.namespace().unwrap_or_default()));
        env.push(variable("OMNIA_TOOLS_CONFIG_PATH", format!("{TOOLS_DIRECTORY}/{TOOLS_KEY}")));
        env.extend(observed.registry.iter().flat_map(|registry| auth_variables(registry)));
    }
    env.extend(session(runtime, "OMNIA_SESSION_URL"));
    if let Some(media) = &spec.media {
        env.push(variable("OMNIA_MEDIA_BASE_PATH", &media.base_path));
    }
    if is_mock(runtime) {
        env.push(variable("OMNIA_MOCK_PROVIDER", "true"));
    }
    if plan.runtime.own {
        env.push(routing());
    }
    env.extend(spec.runtime.as_ref().and_then(|settings| settings.extra_env.clone()).unwrap_or_default());
    env
}

fn provider(model: &Thinker) -> Vec<EnvVar> {
    let mut env = vec![variable("OMNIA_PROVIDER_TYPE", model.type_.as_str())];
    let tokens = model.tuning.max_tokens.map(|most| most.to_string());
    let optional = [
        ("MODEL", model.model.clone()),
        ("BASE_URL", model.base_url.clone()),
        ("TEMPERATURE", model.tuning.temperature.clone()),
        ("TOP_P", model.tuning.top_p.clone()),
        ("MAX_TOKENS", tokens),
        ("INPUT_COST", model.pricing.input_cost_per_1k.clone()),
        ("OUTPUT_COST", model.pricing.output_cost_per_1k.clone()),
        ("CACHED_COST", model.pricing.cached_cost_per_1k.clone()),
    ];
    for (name, value) in optional {
        env.extend(value.map(|value| variable(&format!("OMNIA_PROVIDER_{name}"), value)));
    }
    for (name, value) in &model.additional {
        env.push(variable(&format!("OMNIA_PROVIDER_{}", name.to_ascii_uppercase().replace('-', "_")), value));
    }
    if let (Some(secret), Some(name)) = (&model.secret, model.type_.key_variable()) {
        env.push(from_secret(name, &secret.name, secret.key.as_deref().unwrap_or(name), true));
    }
    env
}

fn session(runtime: &AgentRuntime, url: &str) -> Vec<EnvVar> {
    let session = runtime.spec.session.clone().unwrap_or_default();
    let mut env =
        vec![variable("OMNIA_SESSION_TYPE", session.type_.as_str()), variable("OMNIA_SESSION_TTL", &session.ttl.0)];
    if let (Some(store), true) = (&session.store_ref, session.type_ != SessionType::Memory) {
        env.push(from_secret(url, &store.name, "url", false));
    }
    env
}
