//! From a recipe to a Pod, whatever the dialect.

use std::collections::BTreeMap;

use api::kubeopencode::{Scheduling, images};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, LocalObjectReference, Pod, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SecurityContext, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

/// Everything a Pod is made of. What is empty is left out of it.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Containers that come first, one after the other.
    pub init_containers: Vec<Container>,
    /// Containers that do the work.
    pub containers: Vec<Container>,
    /// What they mount.
    pub volumes: Vec<Volume>,
    /// Where it may run.
    pub scheduling: Scheduling,
    /// Whether containers that end are started again; the cluster's default when `None`.
    pub restart_policy: Option<&'static str>,
    /// Its account; the namespace's default when `None`.
    pub service_account: Option<String>,
    /// Registry credentials.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// What runs its containers.
    pub runtime_class: Option<String>,
    /// What its containers may do, together.
    pub security_context: Option<PodSecurityContext>,
    /// How long it may take to end, in seconds.
    pub grace: Option<i64>,
    /// How long it may run, in seconds.
    pub deadline: Option<i64>,
}

/// How a Deployment replaces its Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// As the cluster does it.
    Usual,
    /// New ones come before old ones go.
    Rolling,
    /// Old ones go before new ones come.
    Recreating,
}

impl Recipe {
    /// A Pod of its own. What it is called and whose it is comes from `metadata`.
    pub fn pod(self, mut metadata: ObjectMeta) -> Pod {
        metadata.labels.get_or_insert_default().extend(self.labels.clone());
        metadata.annotations = given(self.annotations.clone());
        Pod { metadata, spec: Some(self.spec()), status: None }
    }

    /// A Deployment of such Pods.
    pub fn deployment(
        self,
        metadata: ObjectMeta,
        selector: BTreeMap<String, String>,
        replicas: i32,
        replacing: Replacing,
    ) -> Deployment {
        let strategy = match replacing {
            Replacing::Usual => None,
            Replacing::Rolling => Some("RollingUpdate"),
            Replacing::Recreating => Some("Recreate"),
        };
        let strategy = strategy.map(|type_| DeploymentStrategy { type_: Some(type_.into()), rolling_update: None });
        let (labels, annotations) = (given(self.labels.clone()), given(self.annotations.clone()));
        let described = ObjectMeta { labels, annotations, ..ObjectMeta::default() };
        Deployment {
            metadata,
            spec: Some(DeploymentSpec {
                replicas: Some(replicas),
                selector: LabelSelector { match_labels: Some(selector), match_expressions: None },
                strategy,
                template: PodTemplateSpec { metadata: Some(described), spec: Some(self.spec()) },
                ..DeploymentSpec::default()
            }),
            status: None,
        }
    }

    fn spec(self) -> PodSpec {
        PodSpec {
            init_containers: some(self.init_containers),
            containers: self.containers,
            volumes: some(self.volumes),
            restart_policy: self.restart_policy.map(Into::into),
            service_account_name: self.service_account,
            image_pull_secrets: some(self.image_pull_secrets),
            node_selector: self.scheduling.node_selector,
            tolerations: self.scheduling.tolerations,
            affinity: self.scheduling.affinity,
            runtime_class_name: self.runtime_class,
            security_context: self.security_context,
            termination_grace_period_seconds: self.grace,
            active_deadline_seconds: self.deadline,
            ..PodSpec::default()
        }
    }
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}

fn given(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    (!map.is_empty()).then_some(map)
}

/// What every container has: an image, the rule when that is pulled, a command unless the image's own is meant, and few
/// rights.
pub(crate) fn container(name: impl Into<String>, image: &str, command: Vec<String>) -> Container {
    Container {
        name: name.into(),
        image: Some(image.into()),
        image_pull_policy: Some(images::pull_policy(image).into()),
        command: some(command),
        security_context: Some(restricted()),
        ..Container::default()
    }
}

/// What a container may do unless the user says otherwise: the restricted profile of Kubernetes, except for the user id.
fn restricted() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
        ..SecurityContext::default()
    }
}

/// A TCP port that a container listens on.
pub(crate) fn listens(name: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: port,
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}
