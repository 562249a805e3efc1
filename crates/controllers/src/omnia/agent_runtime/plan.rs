//! From what is written to what can be built: validate → pack → tools → policy → provider. Pure. After this nobody reads
//! the raw resource for a decision.

use api::omnia::{
    AgentRuntime, FacadeType, HandlerMode, KeptVersion, PackPhase, Pricing, PromptPack, ProviderPhase, ProviderSecret,
    ProviderType, SessionType, Tuning, names,
};
use kube::ResourceExt;

use super::observe::{Observed, provider_of};
use crate::omnia::Settings;
use crate::omnia::provider::{check_key, resolve};
use crate::omnia::report::Fault;
use crate::omnia::settings::Image;

/// Everything that the objects of an agent are made from.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) facade: Image,
    pub(super) runtime: Image,
    /// The content that it plays.
    pub(super) version: KeptVersion,
    /// Whether it was asked for by name.
    pub(super) pinned: bool,
    /// The prompt that it plays.
    pub(super) prompt: String,
    pub(super) provider: Option<Thinker>,
}

/// A provider, wherever it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Thinker {
    pub(super) type_: ProviderType,
    pub(super) model: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) secret: Option<ProviderSecret>,
    pub(super) tuning: Tuning,
    pub(super) pricing: Pricing,
    pub(super) additional: std::collections::BTreeMap<String, String>,
}

impl Plan {
    /// Whether a new content reaches the runtime without a restart. Ours reads it again by itself.
    pub(super) fn reloads(&self) -> bool {
        self.runtime.own && !self.pinned
    }

    /// The `ConfigMap` that is mounted: one that changes, or one that never does.
    pub(super) fn pack_config_map(&self, pack: &str) -> String {
        if self.reloads() { names::active_config_map(pack) } else { self.version.config_map.clone() }
    }

    /// Makes a plan, or says what is in the way.
    pub(super) fn make(observed: &Observed, settings: &Settings) -> Result<Self, Fault> {
        let runtime = &*observed.runtime;
        let (facade, image) = (settings.facade(&runtime.spec), settings.runtime(&runtime.spec));
        validate(runtime, &facade, &image)?;
        let (version, pinned) = version(runtime, observed.pack.as_deref())?;
        let prompt = prompt(runtime, &version)?;
        tools(observed)?;
        let provider = provider(observed, &image)?;
        Ok(Self { facade, runtime: image, version, pinned, prompt, provider })
    }
}

/// What the schema of the resource cannot check.
fn validate(runtime: &AgentRuntime, facade: &Image, image: &Image) -> Result<(), Fault> {
    let invalid = |message: String| Err(Fault::permanent("SpecValid", "Invalid", message));
    let spec = &runtime.spec;
    let own = runtime.namespace().unwrap_or_default();
    let elsewhere = |namespace: &Option<String>| namespace.as_ref().is_some_and(|namespace| *namespace != own);
    if spec.tool_registry_ref.as_ref().is_some_and(|reference| elsewhere(&reference.namespace)) {
        return invalid(format!("spec.toolRegistryRef.namespace: only registries of namespace {own} can be used here"));
    }
    if spec.provider_ref.as_ref().is_some_and(|reference| elsewhere(&reference.namespace)) {
        return invalid(format!("spec.providerRef.namespace: only providers of namespace {own} can be used here"));
    }
    if facade.own && spec.facade.type_ == FacadeType::Grpc {
        return invalid(
            "spec.facade.type: the built-in facade speaks no gRPC: name one that does in spec.facade.image".into(),
        );
    }
    if facade.own != image.own && spec.facade.handler == HandlerMode::Runtime {
        let (field, others) = if facade.own { ("framework", "runtime") } else { ("facade", "facade") };
        return invalid(format!(
            "spec.{field}.image: {} is the {others} of others, and the built-in facade and runtime know only each other: name both \
             images (spec.facade.image, spec.framework.image, or the controller's flags) or neither",
            if facade.own { &image.name } else { &facade.name },
        ));
    }
    let session = spec.session.as_ref().map(|session| session.type_).unwrap_or_default();
    if image.own && session != SessionType::Memory {
        let message = "the built-in runtime keeps sessions in memory only: name another in spec.framework.image";
        return invalid(format!("spec.session.type: {message}"));
    }
    if image.own && spec.framework.as_ref().is_some_and(|framework| framework.version.is_some()) {
        return invalid("spec.framework.version: the built-in runtime has only its own version: leave it out".into());
    }
    if image.own && spec.media.is_some() {
        return invalid("spec.media: the built-in runtime shows no files: name another in spec.framework.image".into());
    }
    let additional = spec.provider.as_ref().and_then(|provider| provider.additional_config.as_ref());
    if image.own && additional.is_some_and(|additional| !additional.is_empty()) {
        let message = "the built-in runtime knows none of it: leave it out, or name another in spec.framework.image";
        return invalid(format!("spec.provider.additionalConfig: {message}"));
    }
    let ports = [("8081", 8081), ("9000", 9000), ("9001", 9001)];
    if let Some((port, _)) = ports.iter().find(|(_, port)| *port == spec.facade.port) {
        return invalid(format!("spec.facade.port: {port} is the Pod's own: take another"));
    }
    Ok(())
}

/// The content that an agent plays.
fn version(runtime: &AgentRuntime, pack: Option<&PromptPack>) -> Result<(KeptVersion, bool), Fault> {
    let reference = &runtime.spec.prompt_pack_ref;
    let name = &reference.name;
    let condition = "PromptPackReady";
    let Some(pack) = pack else {
        let message = format!("spec.promptPackRef.name: PromptPack {name} does not exist in this namespace");
        return Err(Fault::permanent(condition, "PromptPackNotFound", message));
    };
    let status = pack.status.clone().unwrap_or_default();
    if let Some(wanted) = &reference.version {
        let found = status.versions.iter().find(|version| version.version == *wanted);
        return found.cloned().map(|version| (version, true)).ok_or_else(|| {
            let known: Vec<&str> = status.versions.iter().map(|version| version.version.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message =
                format!("spec.promptPackRef.version: PromptPack {name} keeps no version {wanted}; it has: {known}");
            Fault::permanent(condition, "PromptPackVersionNotFound", message)
        });
    }
    match status.versions.first() {
        Some(version) => Ok((version.clone(), false)),
        None if status.phase == Some(PackPhase::Failed) => {
            let message = format!("PromptPack {name} has no valid content: see its conditions");
            Err(Fault::permanent(condition, "PromptPackInvalid", message))
        }
        None => {
            Err(Fault::waiting(condition, "PromptPackNotReady", format!("PromptPack {name} has no active version yet")))
        }
    }
}

/// The prompt that an agent plays.
pub(super) fn prompt(runtime: &AgentRuntime, version: &KeptVersion) -> Result<String, Fault> {
    let fault = |message: String| Fault::permanent("PromptPackReady", "PromptPackRefInvalid", message);
    let known = version.prompts.join(", ");
    match &runtime.spec.agent_name {
        Some(name) if version.prompts.contains(name) => Ok(name.clone()),
        Some(name) => Err(fault(format!("spec.agentName: the pack has no prompt {name}; it has: {known}"))),
        None => version.entry.clone().ok_or_else(|| {
            fault(format!(
                "spec.agentName is required, because the pack does not say which of its prompts comes first: {known}"
            ))
        }),
    }
}

/// Tools and policies that are named must be there.
fn tools(observed: &Observed) -> Result<(), Fault> {
    let spec = &observed.runtime.spec;
    if let (Some(reference), None) = (&spec.tool_registry_ref, &observed.registry) {
        let message =
            format!("spec.toolRegistryRef.name: ToolRegistry {} does not exist in this namespace", reference.name);
        return Err(Fault::permanent("ToolRegistryReady", "ToolRegistryNotFound", message));
    }
    if let Some(reference) = &spec.agent_policy_ref
        && !observed.policies.iter().any(|policy| policy.name_any() == reference.name)
    {
        let message =
            format!("spec.agentPolicyRef.name: AgentPolicy {} does not exist in this namespace", reference.name);
        return Err(Fault::permanent("AgentPolicyReady", "AgentPolicyNotFound", message));
    }
    Ok(())
}

/// The model: a Provider, or one that is written down here, or the pack's, or one that needs nothing.
fn provider(observed: &Observed, image: &Image) -> Result<Option<Thinker>, Fault> {
    let runtime = &*observed.runtime;
    let condition = "ProviderReady";
    if let Some(reference) = provider_of(runtime, observed.pack.as_deref()) {
        let Some(provider) = &observed.provider else {
            let message = format!("Provider {} does not exist in this namespace", reference.name);
            return Err(Fault::permanent(condition, "ProviderNotFound", message));
        };
        let phase = provider.status.as_ref().and_then(|status| status.phase);
        if phase != Some(ProviderPhase::Ready) {
            let message = format!("Provider {} is not ready: see its conditions", reference.name);
            return Err(Fault::waiting(condition, "ProviderNotReady", message));
        }
        let spec = &provider.spec;
        return Ok(Some(Thinker {
            type_: resolve(spec.type_, spec.model.as_deref()).unwrap_or(spec.type_),
            model: spec.model.clone(),
            base_url: spec.base_url.clone(),
            secret: spec.secret_ref.clone(),
            tuning: spec.defaults.clone().unwrap_or_default(),
            pricing: spec.pricing.clone().unwrap_or_default(),
            additional: std::collections::BTreeMap::new(),
        }));
    }
    if let Some(inline) = &runtime.spec.provider {
        let fault = |(reason, message): (&'static str, String)| {
            Fault::permanent(
                condition,
                if reason == "Invalid" { "ProviderInvalid" } else { reason },
                format!("spec.provider.{message}"),
            )
        };
        let type_ = resolve(inline.type_, inline.model.as_deref()).map_err(fault)?;
        check_key(type_, inline.secret_ref.as_ref(), inline.base_url.is_some(), &observed.secrets).map_err(fault)?;
        return Ok(Some(Thinker {
            type_,
            model: inline.model.clone(),
            base_url: inline.base_url.clone(),
            secret: inline.secret_ref.clone(),
            tuning: inline.config.clone().unwrap_or_default(),
            pricing: inline.pricing.clone().unwrap_or_default(),
            additional: inline.additional_config.clone().unwrap_or_default(),
        }));
    }
    if is_mock(runtime) {
        return Ok(Some(Thinker { type_: ProviderType::Mock, ..Thinker::default() }));
    }
    if image.own && runtime.spec.facade.handler == HandlerMode::Runtime {
        let message = "spec.providerRef or spec.provider is required: name a model (type mock needs no key)";
        return Err(Fault::permanent(condition, "ProviderRequired", message));
    }
    Ok(None)
}

/// Whether an agent asked to do without a provider.
pub(super) fn is_mock(runtime: &AgentRuntime) -> bool {
    runtime.annotations().get(names::MOCK_ANNOTATION).is_some_and(|value| value == "true")
}
