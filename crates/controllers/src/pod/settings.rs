//! Settings that have been read, merged and checked: after this, nobody looks at the raw resource.

use std::sync::Arc;

use std::collections::BTreeSet;

use api::kubeopencode::images::{self, Images};
use api::kubeopencode::{
    Blueprint, CaBundle, Credential, ExtraPort, KubeOpenCodeConfigSpec, PodSettings, Proxy, PullPolicy, Quota, names,
};
use k8s_openapi::api::core::v1::LocalObjectReference;

/// What makes the Pods of an Agent or a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The three images.
    pub images: Images,
    /// Absolute and without a trailing slash.
    pub workspace: String,
    /// Command of Task Pods, if not the agent itself.
    pub command: Option<Vec<String>>,
    /// The agent's configuration as JSON text.
    pub config: Option<String>,
    /// Whether that configuration says itself what the agent may do.
    pub config_has_permission: bool,
    /// Secrets for the agent.
    pub credentials: Vec<Credential>,
    /// Additions to the Pod.
    pub pod: PodSettings,
    /// Account of the Pods.
    pub service_account: String,
    /// Authorities to trust.
    pub ca_bundle: Option<CaBundle>,
    /// Proxies, the cluster's when there are none of its own.
    pub proxy: Option<Proxy>,
    /// Registry credentials.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// More ports.
    pub extra_ports: Vec<ExtraPort>,
    /// How many Tasks, how often.
    pub limits: Limits,
}

/// How many Tasks may run at once and start in a window of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// At once; any number when `None`.
    pub concurrent: Option<usize>,
    /// In a window of time.
    pub quota: Option<Quota>,
}

impl Limits {
    /// The limits that a blueprint states.
    pub fn of(blueprint: &Blueprint) -> Self {
        let concurrent = blueprint.max_concurrent_tasks.and_then(|most| usize::try_from(most).ok());
        Self { concurrent: concurrent.filter(|most| *most > 0), quota: blueprint.quota.clone() }
    }

    /// Whether there is nothing to keep count of.
    pub fn are_none(&self) -> bool {
        self.concurrent.is_none() && self.quota.is_none()
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field to change.
    pub field: &'static str,
    /// What is wrong with it, and the fix.
    pub problem: String,
}

impl Settings {
    /// Checks a blueprint that is already merged, over the settings of the whole cluster.
    pub fn new(blueprint: &Blueprint, cluster: Option<&KubeOpenCodeConfigSpec>) -> Result<Self, Invalid> {
        let service_account = blueprint.service_account_name.clone().filter(|name| !name.is_empty());
        let service_account = service_account.ok_or_else(|| {
            invalid("spec.serviceAccountName", "is required, here or in the template: name the Pods' ServiceAccount")
        })?;
        let (config, config_has_permission) = agent_config(blueprint.config.as_ref())?;
        let pod = blueprint.pod_spec.clone().unwrap_or_default();
        let extra_ports = blueprint.extra_ports.clone().unwrap_or_default();
        unique_ports(&extra_ports)?;
        Ok(Self {
            images: Images::of(blueprint),
            workspace: workspace(blueprint.workspace_dir.as_deref())?,
            command: blueprint.command.clone().filter(|words| !words.is_empty()),
            config,
            config_has_permission,
            credentials: blueprint.credentials.clone().unwrap_or_default(),
            pod,
            service_account,
            ca_bundle: blueprint.ca_bundle.clone(),
            proxy: blueprint.proxy.clone().or_else(|| cluster.and_then(|cluster| cluster.proxy.clone())),
            image_pull_secrets: blueprint.image_pull_secrets.clone().unwrap_or_default(),
            extra_ports,
            limits: Limits::of(blueprint),
        })
    }
}

fn invalid(field: &'static str, problem: impl Into<String>) -> Invalid {
    Invalid { field, problem: problem.into() }
}

fn workspace(path: Option<&str>) -> Result<String, Invalid> {
    let path = path.filter(|path| !path.is_empty()).unwrap_or(names::DEFAULT_WORKSPACE);
    let trimmed = path.trim_end_matches('/');
    let plain = trimmed.starts_with('/') && !trimmed.split('/').any(|part| part == ".." || part == ".");
    if !plain {
        return Err(invalid("spec.workspaceDir", format!("{path:?} must be an absolute path below /, without dots")));
    }
    Ok(trimmed.to_owned())
}

/// The agent's configuration as JSON text, and whether it has a permission policy of its own.
fn agent_config(config: Option<&serde_json::Value>) -> Result<(Option<String>, bool), Invalid> {
    let object = match config {
        None | Some(serde_json::Value::Null) => return Ok((None, false)),
        Some(serde_json::Value::String(text)) if text.trim().is_empty() => return Ok((None, false)),
        Some(serde_json::Value::String(text)) => serde_json::from_str(text)
            .map_err(|error| invalid("spec.config", format!("is a string that does not hold JSON: {error}")))?,
        Some(value) => value.clone(),
    };
    if !object.is_object() {
        return Err(invalid("spec.config", "must be an object, or a string that holds one as JSON"));
    }
    let permission = object.get("permission").is_some();
    Ok((Some(object.to_string()), permission))
}

fn unique_ports(ports: &[ExtraPort]) -> Result<(), Invalid> {
    let mut names = BTreeSet::from(["http", names::CONTEXT_PORT_NAME]);
    for port in ports {
        if !names.insert(&port.name) {
            let problem = format!("the name {} is used twice; http and contexts are the server's own", port.name);
            return Err(invalid("spec.extraPorts", problem));
        }
    }
    Ok(())
}

/// What the operator of the platform decides: images of our own containers, and how the agent's binary is had.
#[derive(Clone, Debug)]
pub struct System {
    /// Image of the containers that prepare contexts.
    pub image: String,
    /// When it is pulled.
    pub pull_policy: PullPolicy,
    /// How the agent's binary gets to `/tools`.
    pub tools: Tools,
    /// Images in which what is linked can be found; to others it is copied.
    pub linked_images: Linked,
    /// An image with our own binary. It runs beside the agent: brings files to a server, tells about a session. Without
    /// it, and where it is not [`Tools::Linked`] either, that is not done.
    pub helper_image: Option<String>,
    /// The cluster's own DNS domain.
    pub cluster_domain: String,
}

/// How the agent's binary gets to `/tools`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tools {
    /// The agent image's own entry point copies it, as on any cluster.
    #[default]
    Copied,
    /// It is on this machine already: it is linked, not copied for each Pod, in images that show this machine's files.
    Linked,
}

/// Says which images show the machine's own files. All, unless someone knows better.
#[derive(Clone)]
pub struct Linked(pub Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Default for Linked {
    fn default() -> Self {
        Self(Arc::new(|_| true))
    }
}

impl std::fmt::Debug for Linked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Linked")
    }
}

impl Default for System {
    fn default() -> Self {
        Self {
            image: images::SYSTEM.into(),
            pull_policy: PullPolicy::default(),
            tools: Tools::default(),
            linked_images: Linked::default(),
            helper_image: None,
            cluster_domain: "cluster.local".into(),
        }
    }
}

impl System {
    /// Whether our own binary is beside the agent.
    pub fn helps(&self) -> bool {
        self.tools == Tools::Linked || self.helper_image.is_some()
    }

    /// With what the cluster's configuration says instead.
    #[must_use]
    pub fn with(mut self, cluster: Option<&KubeOpenCodeConfigSpec>) -> Self {
        let configured = cluster.and_then(|cluster| cluster.system_image.clone()).unwrap_or_default();
        if let Some(image) = configured.image.filter(|image| !image.is_empty()) {
            self.image = image;
        }
        if let Some(policy) = configured.image_pull_policy {
            self.pull_policy = policy;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(blueprint: serde_json::Value) -> Result<Settings, Invalid> {
        Settings::new(&serde_json::from_value(blueprint).expect("a blueprint"), None)
    }

    #[test]
    fn the_workspace_has_a_default_and_is_absolute() {
        let workspace = |path: &str| settings(json!({ "serviceAccountName": "sa", "workspaceDir": path }));
        assert_eq!(workspace("").map(|s| s.workspace), Ok("/workspace".into()));
        assert_eq!(workspace("/srv/work/").map(|s| s.workspace), Ok("/srv/work".into()));
        for path in ["/", "/a/../b"] {
            assert_eq!(workspace(path).map(|s| s.workspace).map_err(|e| e.field), Err("spec.workspaceDir"), "{path}");
        }
    }

    #[test]
    fn config_is_an_object_or_a_string_that_holds_one() {
        let config = |value| settings(json!({ "serviceAccountName": "sa", "config": value })).map(|s| s.config);
        assert_eq!(config(json!({ "model": "m" })), Ok(Some(r#"{"model":"m"}"#.into())));
        assert_eq!(config(json!(r#"{ "model": "m" }"#)), Ok(Some(r#"{"model":"m"}"#.into())));
        assert_eq!(config(json!("")), Ok(None));
        assert!(config(json!("{")).is_err() && config(json!(["x"])).is_err());
    }

    #[test]
    fn the_account_is_required_and_named() {
        assert_eq!(settings(json!({})).map_err(|invalid| invalid.field), Err("spec.serviceAccountName"));
    }
}
