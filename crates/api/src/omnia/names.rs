//! Words that other programs look for: labels, annotations, finalizers, environment variables, names of owned objects.

use sha2::{Digest as _, Sha256};

/// The API group of this dialect.
pub const GROUP: &str = "omnia.altairalabs.ai";
/// `apiVersion` of every kind here.
pub const API_VERSION: &str = "omnia.altairalabs.ai/v1alpha1";

/// Keeps an `AgentRuntime` until its controller has let it go.
pub const FINALIZER: &str = "agentruntime.omnia.altairalabs.ai/finalizer";
/// What part of the platform an object is: `agent`.
pub const COMPONENT_LABEL: &str = "omnia.altairalabs.ai/component";
/// On the `ConfigMaps` of a pack: the `PromptPack`'s name.
pub const PACK_LABEL: &str = "omnia.altairalabs.ai/promptpack";
/// On a kept version of a pack: the version, which a label could not always hold.
pub const VERSION_ANNOTATION: &str = "omnia.altairalabs.ai/pack-version";
/// On the second Deployment of an agent: the immutable `ConfigMap` with the content that it plays.
pub const CONTENT_ANNOTATION: &str = "omnia.altairalabs.ai/pack-content";
/// On a Pod template: a digest of everything the containers read at their start, so that a change rolls the Deployment.
pub const HASH_ANNOTATION: &str = "omnia.altairalabs.ai/config-hash";
/// On an `AgentRuntime`: `true` lets it answer without a provider.
pub const MOCK_ANNOTATION: &str = "omnia.altairalabs.ai/mock-provider";

/// On a Pod that asks a program what tools it has: since when.
pub const ASKED_ANNOTATION: &str = "omnia.altairalabs.ai/asked-at";

/// On a Service: the name of the tool it serves.
pub const TOOL_NAME_ANNOTATION: &str = "omnia.altairalabs.ai/tool-name";
/// On a Service: what the tool does, in the words a model reads.
pub const TOOL_DESCRIPTION_ANNOTATION: &str = "omnia.altairalabs.ai/tool-description";
/// On a Service: `http`, `grpc`, `openapi` or `mcp`.
pub const TOOL_TYPE_ANNOTATION: &str = "omnia.altairalabs.ai/tool-type";
/// On a Service: the path of the tool's URL.
pub const TOOL_PATH_ANNOTATION: &str = "omnia.altairalabs.ai/tool-path";

/// The file that a pack's `ConfigMap` holds.
pub const PACK_KEY: &str = "pack.json";
/// The file that a runtime's tools are in.
pub const TOOLS_KEY: &str = "tools.yaml";

/// The `ConfigMap` with a runtime's tools.
pub fn tools_config_map(runtime: &str) -> String {
    format!("{runtime}-tools")
}

/// A `ConfigMap` with what does not fit into a registry's status.
pub fn schemas_config_map(registry: &str, number: usize) -> String {
    format!("{registry}-schemas-{number}")
}

/// The second Deployment of a runtime while its pack has a canary, and the Service in front of it.
pub fn canary(runtime: &str) -> String {
    format!("{runtime}-canary")
}

/// The Service in front of a runtime's first Deployment while its own leads to the router.
pub fn stable_service(runtime: &str) -> String {
    format!("{runtime}-stable")
}

/// The router of a runtime, and the `ConfigMap` that says what it does.
pub fn router(runtime: &str) -> String {
    format!("{runtime}-router")
}

/// The `ConfigMap` whose content is always the pack's active version.
pub fn active_config_map(pack: &str) -> String {
    format!("{pack}-active")
}

/// The immutable `ConfigMap` that keeps one content of a pack.
pub fn kept_config_map(pack: &str, content: &str) -> String {
    format!("{pack}-{}", digest([content]))
}

/// The digest in the name of a `ConfigMap` that keeps a content.
pub fn digest_of_kept(config_map: &str) -> &str {
    config_map.rsplit_once('-').map_or(config_map, |(_, digest)| digest)
}

/// A short digest of texts, in their order.
pub fn digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.finalize().iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
