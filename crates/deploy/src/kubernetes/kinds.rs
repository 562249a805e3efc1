//! What a type is in the cluster: a row each, in the order of their phases.

/// The group of the dialect.
pub const OMNIA: &str = "omnia.altairalabs.ai/v1alpha1";

pub const CONFIG_MAP: &str = "configmap";
pub const PROMPT_PACK: &str = "prompt_pack";
pub const TOOL_REGISTRY: &str = "tool_registry";
pub const AGENT_POLICY: &str = "agent_policy";
pub const AGENT_RUNTIME: &str = "agent_runtime";

/// All of them.
pub const TYPES: &[&str] = &[CONFIG_MAP, PROMPT_PACK, TOOL_REGISTRY, AGENT_POLICY, AGENT_RUNTIME];

/// What a type is in the cluster.
#[expect(clippy::struct_field_names, reason = "the words of Kubernetes")]
pub struct Kind {
    pub type_: &'static str,
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// The longest name; runtimes name Services and objects with an ending, packs become a label.
    pub longest: usize,
}

pub const KINDS: &[Kind] = &[
    Kind { type_: CONFIG_MAP, api_version: "v1", kind: "ConfigMap", plural: "configmaps", longest: 253 },
    Kind { type_: PROMPT_PACK, api_version: OMNIA, kind: "PromptPack", plural: "promptpacks", longest: 63 },
    Kind { type_: TOOL_REGISTRY, api_version: OMNIA, kind: "ToolRegistry", plural: "toolregistries", longest: 253 },
    Kind { type_: AGENT_POLICY, api_version: OMNIA, kind: "AgentPolicy", plural: "agentpolicies", longest: 253 },
    Kind { type_: AGENT_RUNTIME, api_version: OMNIA, kind: "AgentRuntime", plural: "agentruntimes", longest: 56 },
];

impl Kind {
    pub fn of(type_: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.type_ == type_)
    }

    /// The path of all objects of the kind.
    pub fn collection(&self, namespace: &str) -> String {
        collection(self.api_version, self.plural, namespace)
    }
}

pub fn collection(api_version: &str, plural: &str, namespace: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}/namespaces/{namespace}/{plural}")
}
