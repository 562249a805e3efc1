//! `omnia.altairalabs.ai/v1alpha1`: agents that play packs of prompts, with tools, policies and providers.

pub mod address;
mod agent_policy;
mod agent_runtime;
mod canary;
pub mod names;
pub mod pack;
mod prompt_pack;
mod provider;
pub mod routing;
mod tool_registry;
pub mod tools;

pub use agent_policy::{
    AccessMode, AccessRule, AgentPolicy, AgentPolicySpec, AgentPolicyStatus, AgentSelector, OnFailure, PolicyMode,
    PolicyPhase, ToolAccess, ToolName,
};
pub use agent_runtime::{
    AgentPolicyReference, AgentRuntime, AgentRuntimeSpec, AgentRuntimeStatus, Facade, FacadeType, Framework,
    FrameworkType, HandlerMode, Media, PromptPackReference, ProviderReference, Replicas, RuntimePhase, RuntimeSettings,
    Session, SessionType, StoreReference, ToolRegistryReference, Track,
};
pub use canary::{
    AgentCanary, AgentCanaryStage, Analysis, Canary, CanaryStage, CanaryStatus, RejectedVersion, SideStatus, Verdict,
};
pub use prompt_pack::{
    ConfigMapReference, KeptVersion, PackPhase, PackSource, PackSourceType, PromptPack, PromptPackSpec,
    PromptPackStatus, Rollout, RolloutType,
};
pub use provider::{
    InlineProvider, Pricing, Provider, ProviderPhase, ProviderSecret, ProviderSpec, ProviderStatus, ProviderType,
    Tuning,
};
pub use tool_registry::{
    AuthType, Body, DeclaredTool, Details, DiscoveredTool, GrpcConfig, Handler, HandlerType, HttpConfig, HttpMethod,
    Location, McpConfig, McpTransport, OpenApiConfig, Operation, Parameter, RegistryPhase, SchemaReference, SecretKey,
    ServiceSelector, Style, Tool, ToolAvailability, ToolRegistry, ToolRegistrySpec, ToolRegistryStatus,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The definitions of this group.
pub fn crds() -> Vec<CustomResourceDefinition> {
    use crate::schema::finish;
    vec![
        finish(AgentPolicy::crd(), &[]),
        finish(AgentRuntime::crd(), &[]),
        finish(PromptPack::crd(), &[]),
        finish(Provider::crd(), &[]),
        finish(ToolRegistry::crd(), &[]),
    ]
}
