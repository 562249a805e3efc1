use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// How the Pods are made: scheduling, isolation, resources, additions. Applies to the server and to Task Pods alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// More labels for the Pods, e.g. for network policies. Labels that the controller itself needs keep their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Where the Pods may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// `RuntimeClass` for stronger isolation, e.g. gvisor or kata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// Resources of the main container. Default: requests 512Mi, limits 4Gi of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::resources")]
    pub resources: Option<core::ResourceRequirements>,
    /// Security context of the main container. Default: no escalation, no capabilities, the runtime's seccomp profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::security_context")]
    pub security_context: Option<core::SecurityContext>,
    /// Security attributes of the whole Pod, e.g. runAsUser or fsGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_security_context")]
    pub pod_security_context: Option<core::PodSecurityContext>,
    /// Hooks of the main container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::lifecycle")]
    pub lifecycle: Option<core::Lifecycle>,
    /// More volumes for the Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::volumes")]
    pub extra_volumes: Option<Vec<core::Volume>>,
    /// More mounts for the main container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::volume_mounts")]
    pub extra_volume_mounts: Option<Vec<core::VolumeMount>>,
    /// More environment variables for every container; they come last, so they win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub extra_env: Option<Vec<core::EnvVar>>,
}

/// Constraints on the nodes that may run the Pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that the Pods tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::tolerations")]
    pub tolerations: Option<Vec<core::Toleration>>,
    /// Nodes and neighbours that the Pods want or avoid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::affinity")]
    pub affinity: Option<core::Affinity>,
}
