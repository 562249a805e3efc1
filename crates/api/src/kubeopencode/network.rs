#![allow(clippy::struct_field_names, reason = "the names that users write, which the derive repeats")]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Proxies for every container of the Pods. The cluster's own names (`.svc`, `.cluster.local`) always bypass them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proxy {
    /// Proxy for plain HTTP; becomes `HTTP_PROXY` and `http_proxy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    /// Proxy for HTTPS; becomes `HTTPS_PROXY` and `https_proxy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    /// Hosts that are reached directly, separated by commas; becomes `NO_PROXY` and `no_proxy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
}

/// Certificates of authorities to trust beside the public ones: for Git, for URLs, and for the agent itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.configMapRef) || has(self.secretRef)")
        .message("set one of configMapRef and secretRef: the bundle must come from somewhere")
        .field_path(".configMapRef"),
    validation = Rule::new("!(has(self.configMapRef) && has(self.secretRef))")
        .message("set only one of configMapRef and secretRef")
        .field_path(".secretRef"),
)]
pub struct CaBundle {
    /// A `ConfigMap` with the certificates; its key is `ca-bundle.crt` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<CaBundleReference>,
    /// A Secret with the certificates; its key is `ca.crt` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<CaBundleReference>,
}

/// An object in the same namespace and the key that holds PEM certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBundleReference {
    /// Name of the `ConfigMap` or Secret.
    pub name: String,
    /// The key with the certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// One more port of the agent's container and Service, e.g. of a web server that the agent starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraPort {
    /// Name of the port, unique in the Agent; `http` is the server's own.
    #[schemars(length(min = 1, max = 15), pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Number of the port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// TCP or UDP.
    #[serde(default)]
    pub protocol: Protocol,
}

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// Transmission Control Protocol.
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    /// User Datagram Protocol.
    #[serde(rename = "UDP")]
    Udp,
}
