use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Proxy;

/// Settings for the whole cluster, in one object named `cluster`. Changes take effect at once.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "KubeOpenCodeConfig",
    plural = "kubeopencodeconfigs",
    shortname = "ktc",
    category = "kubeopencode",
    category = "orrery",
    derive = "PartialEq",
    doc = "Settings for the whole cluster, in one object named cluster. Changes take effect at once.",
    validation = Rule::new("self.metadata.name == 'cluster'")
        .message("metadata.name must be cluster: there is one configuration for the whole cluster"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase")]
pub struct KubeOpenCodeConfigSpec {
    /// The image of the containers that prepare contexts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_image: Option<SystemImage>,
    /// When finished Tasks are deleted; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
    /// Proxies for every Agent and template that has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
}

/// The image of the containers that prepare contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemImage {
    /// The image; without it, the built-in default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When to pull it. Default `IfNotPresent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// Before every start.
    Always,
    /// Not at all.
    Never,
    /// When the node does not have it.
    #[default]
    IfNotPresent,
}

impl PullPolicy {
    /// The word that a Pod uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::Never => "Never",
            Self::IfNotPresent => "IfNotPresent",
        }
    }
}

/// When finished Tasks are deleted, with their Pods and `ConfigMaps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cleanup {
    /// Delete a Task this many seconds after it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Keep at most this many finished Tasks in a namespace, the newest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_retained_tasks: Option<i32>,
}
