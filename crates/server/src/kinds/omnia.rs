//! The shapes of Omnia's kinds. Everything in them is a field of the object, so a shape is all there is to say.

use serde_json::json;

use super::view::Shape;

/// A `PromptPack`.
pub static PROMPT_PACK: Shape = Shape {
    spec: &["source", "version", "rollout", "providerRef", "description"],
    status: &[
        "phase",
        "activeVersion",
        "lastUpdated",
        "versions",
        "agents",
        "canaryVersion",
        "canaryWeight",
        "canary",
        "rejected",
    ],
    more: || json!({}),
    required: &["source", "version"],
};

/// An `AgentRuntime`. How its Pods are made is for the whole object.
pub static AGENT_RUNTIME: Shape = Shape {
    spec: &[
        "promptPackRef",
        "agentName",
        "facade",
        "framework",
        "toolRegistryRef",
        "agentPolicyRef",
        "session",
        "providerRef",
        "provider",
    ],
    status: &["phase", "replicas", "activeVersion", "serviceEndpoint", "canary"],
    more: || json!({}),
    required: &["promptPackRef", "facade"],
};

/// A `ToolRegistry`.
pub static TOOL_REGISTRY: Shape = Shape {
    spec: &["handlers", "tools"],
    status: &["phase", "discoveredToolsCount", "discoveredTools", "lastDiscoveryTime"],
    more: || json!({}),
    required: &[],
};

/// An `AgentPolicy`.
pub static AGENT_POLICY: Shape = Shape {
    spec: &["selector", "toolAccess", "toolBlocklist", "mode", "onFailure"],
    status: &["phase", "matchedAgents"],
    more: || json!({}),
    required: &[],
};

/// A `Provider`.
pub static PROVIDER: Shape = Shape {
    spec: &["type", "model", "baseURL", "secretRef", "defaults", "pricing"],
    status: &["phase"],
    more: || json!({}),
    required: &["type"],
};
