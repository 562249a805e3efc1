//! The objects of an agent.

use std::collections::BTreeMap;

use api::kubeopencode::Scheduling;
use api::omnia::{RuntimeSettings, names};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, HTTPGetAction, Probe, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::environment::{
    FACADE_HEALTH_PORT, PACK_DIRECTORY, RUNTIME_HEALTH_PORT, RUNTIME_PORT, TOOLS_DIRECTORY, of_facade, of_runtime,
};
use super::observe::Observed;
use super::plan::Plan;
use super::router;
use crate::omnia::owner::{labels, owned};
use crate::omnia::settings::Image;
use crate::pod::{self, Recipe, Replacing, config_map_volume, listens, read_only};

/// Our own program, in an image that has it.
pub(super) const PROGRAM: &str = "/orrery";

/// Which of an agent's two Deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The one that is always there.
    Stable,
    /// The one that plays a new version while its pack has a canary.
    Canary,
}

impl Side {
    /// What its Pods are labelled with.
    pub(super) fn component(self) -> &'static str {
        match self {
            Self::Stable => "agent",
            Self::Canary => "canary",
        }
    }
}

/// A Deployment.
pub(super) fn deployment(observed: &Observed, plan: &Plan, tools: Option<&ConfigMap>, side: Side) -> Deployment {
    let runtime = &*observed.runtime;
    let name = runtime.name_any();
    let labels = labels(side.component(), &name);
    let settings = runtime.spec.runtime.clone().unwrap_or_else(usual);
    let mut annotations = scraped();
    annotations.insert(names::HASH_ANNOTATION.into(), hash(observed, plan, tools));
    let recipe = Recipe {
        labels: labels.clone(),
        annotations,
        containers: vec![facade(observed, plan), thinker(observed, plan, &settings)],
        volumes: volumes(observed, plan, &settings),
        scheduling: Scheduling {
            node_selector: settings.node_selector.clone(),
            tolerations: settings.tolerations.clone(),
            affinity: settings.affinity.clone(),
        },
        ..Recipe::default()
    };
    let mut own = owned(runtime, name.clone(), labels.clone());
    if side == Side::Canary {
        own.name = Some(names::canary(&name));
        let content = plan.version.config_map.clone();
        own.annotations = Some(BTreeMap::from([(names::CONTENT_ANNOTATION.to_owned(), content)]));
    }
    recipe.deployment(own, labels, settings.replicas, Replacing::Usual)
}

fn usual() -> RuntimeSettings {
    RuntimeSettings { replicas: 1, ..RuntimeSettings::default() }
}

/// A digest of what the containers read only at their start.
fn hash(observed: &Observed, plan: &Plan, tools: Option<&ConfigMap>) -> String {
    let mut texts: Vec<&str> = Vec::new();
    if !plan.reloads() {
        texts.push(&plan.version.config_map);
    }
    // Ours reads its tools again before every request.
    if !plan.runtime.own {
        texts.extend(tools.iter().flat_map(|map| map.data.iter().flat_map(BTreeMap::values)).map(String::as_str));
    }
    for (name, contents) in observed.secrets.iter().chain(&observed.config_maps) {
        texts.push(name);
        texts.extend(contents.keys.iter().flat_map(|(key, digest)| [key.as_str(), digest.as_str()]));
    }
    names::digest(texts)
}

pub(super) fn scraped() -> BTreeMap<String, String> {
    let annotation = |key: &str, value: String| (format!("prometheus.io/{key}"), value);
    BTreeMap::from([
        annotation("scrape", "true".into()),
        annotation("port", FACADE_HEALTH_PORT.to_string()),
        annotation("path", "/metrics".into()),
    ])
}

fn container(name: &str, image: &Image, verb: &str, env: Vec<EnvVar>) -> Container {
    let command = if image.own { vec![PROGRAM.into(), verb.into()] } else { Vec::new() };
    let mut container = Container { env: Some(env), ..pod::container(name, &image.name, command) };
    if !image.own {
        container.image_pull_policy = Some("IfNotPresent".into());
    }
    container
}

fn facade(observed: &Observed, plan: &Plan) -> Container {
    let port = observed.runtime.spec.facade.port;
    Container {
        ports: Some(vec![listens("facade", port), listens("facade-health", FACADE_HEALTH_PORT)]),
        readiness_probe: Some(probe("/readyz", FACADE_HEALTH_PORT, 5, 10)),
        liveness_probe: Some(probe("/healthz", FACADE_HEALTH_PORT, 15, 20)),
        volume_mounts: plan.facade.own.then(|| vec![read_only("routing", router::DIRECTORY)]),
        ..container("facade", &plan.facade, "omnia-facade", of_facade(observed, plan))
    }
}

fn thinker(observed: &Observed, plan: &Plan, settings: &RuntimeSettings) -> Container {
    let mut mounts = vec![read_only("promptpack-config", PACK_DIRECTORY)];
    if observed.registry.is_some() {
        mounts.push(read_only("tools-config", TOOLS_DIRECTORY));
    }
    if plan.runtime.own {
        mounts.push(read_only("routing", router::DIRECTORY));
    }
    mounts.extend::<Vec<VolumeMount>>(settings.volume_mounts.clone().unwrap_or_default());
    Container {
        ports: Some(vec![listens("grpc", RUNTIME_PORT), listens("runtime-health", RUNTIME_HEALTH_PORT)]),
        readiness_probe: Some(probe("/healthz", RUNTIME_HEALTH_PORT, 5, 10)),
        liveness_probe: Some(probe("/healthz", RUNTIME_HEALTH_PORT, 15, 20)),
        resources: settings.resources.clone(),
        volume_mounts: Some(mounts),
        ..container("runtime", &plan.runtime, "omnia-runtime", of_runtime(observed, plan))
    }
}

pub(super) fn probe(path: &str, port: i32, delay: i32, period: i32) -> Probe {
    let action = HTTPGetAction { path: Some(path.into()), port: IntOrString::Int(port), ..HTTPGetAction::default() };
    Probe {
        http_get: Some(action),
        initial_delay_seconds: Some(delay),
        period_seconds: Some(period),
        ..Probe::default()
    }
}

fn volumes(observed: &Observed, plan: &Plan, settings: &RuntimeSettings) -> Vec<Volume> {
    let runtime = &*observed.runtime;
    let pack = plan.pack_config_map(&runtime.spec.prompt_pack_ref.name);
    let mut volumes = vec![config_map_volume("promptpack-config", &pack, None, None, false)];
    if observed.registry.is_some() {
        let tools = names::tools_config_map(&runtime.name_any());
        volumes.push(config_map_volume("tools-config", &tools, None, None, false));
    }
    if plan.facade.own || plan.runtime.own {
        // There while a router stands in front.
        volumes.push(config_map_volume("routing", &names::router(&runtime.name_any()), None, None, true));
    }
    volumes.extend(settings.volumes.clone().unwrap_or_default());
    volumes
}

/// The Service that clients know: it leads to the Pods, or to the router.
pub(super) fn service(observed: &Observed, routed: bool) -> Service {
    let component = if routed { router::COMPONENT } else { Side::Stable.component() };
    let name = observed.runtime.name_any();
    let mut service = service_to(observed, name.clone(), component);
    service.metadata.labels = Some(labels("agent", &name));
    service.metadata.annotations = Some(scraped());
    service
}

/// A Service that leads to an agent's Pods of one kind.
pub(super) fn service_to(observed: &Observed, name: String, component: &str) -> Service {
    let runtime = &*observed.runtime;
    let labels = labels(component, &runtime.name_any());
    let ports = vec![service_port("facade", runtime.spec.facade.port)];
    Service {
        metadata: owned(runtime, name, labels.clone()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(labels),
            ports: Some(ports),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// A Service by which the router reaches one side, and that side's runtimes each other's conversations.
pub(super) fn service_for_router(observed: &Observed, name: String, side: Side) -> Service {
    let mut service = service_to(observed, name, side.component());
    if let Some(ports) = service.spec.as_mut().and_then(|spec| spec.ports.as_mut()) {
        ports.push(service_port("grpc", RUNTIME_PORT));
    }
    service
}

fn service_port(name: &str, port: i32) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port,
        target_port: Some(IntOrString::String(name.into())),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}

/// Where clients reach an agent.
pub(super) fn endpoint(observed: &Observed, cluster_domain: &str) -> String {
    let runtime = &*observed.runtime;
    let (name, namespace) = (runtime.name_any(), runtime.namespace().unwrap_or_default());
    format!("{name}.{namespace}.svc.{cluster_domain}:{}", runtime.spec.facade.port)
}
