//! The objects of an Agent.

use std::collections::BTreeMap;

use api::kubeopencode::{Agent, Protocol, VolumePersistence, names};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, ContainerPort, EnvVar, HTTPGetAction, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, Probe, Secret, Service, ServicePort, ServiceSpec, TCPSocketAction, Volume,
    VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use super::observe::Observed;
use crate::kubeopencode::owner::owned;
use crate::pod::{
    Contexts, Layer, Main, Problem, Replacing, Settings, System, Workplace, from_secret, listens, variable,
};

/// Where the sessions' database is kept.
const SESSIONS: &str = "/data/sessions";

/// Everything an Agent owns.
pub(super) struct Objects {
    pub(super) config_map: Option<ConfigMap>,
    pub(super) claims: Vec<PersistentVolumeClaim>,
    pub(super) deployment: Deployment,
    pub(super) service: Service,
}

/// Makes them.
pub(super) fn build(
    observed: &Observed,
    settings: &Settings,
    system: &System,
    replicas: i32,
) -> Result<(Objects, Vec<String>), Problem> {
    let agent = &*observed.host.agent;
    let contexts = contexts(observed, settings)?;
    let data = contexts.data();
    let name = agent.name_any();
    let config_map = (!data.is_empty()).then(|| ConfigMap {
        metadata: owned(agent, names::server_config_map(&name), labels(agent)),
        data: Some(data),
        ..ConfigMap::default()
    });
    let skipped = contexts.skipped.clone();
    let objects = Objects {
        config_map,
        claims: claims(agent),
        deployment: deployment(agent, settings, system, &contexts, replicas),
        service: service(agent, settings, system),
    };
    Ok((objects, skipped))
}

fn contexts(observed: &Observed, settings: &Settings) -> Result<Contexts, Problem> {
    let agent = &*observed.host.agent;
    let items = observed.host.blueprint().ok().and_then(|blueprint| blueprint.contexts).unwrap_or_default();
    let layers = [Layer { source: "spec.contexts", items: &items }];
    let namespace = agent.namespace().unwrap_or_default();
    let contexts =
        Contexts::resolve(&settings.workspace, &settings.workspace, &namespace, &layers, None, &observed.config_maps)?;
    Ok(contexts.with_config(settings))
}

fn labels(agent: &Agent) -> BTreeMap<String, String> {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    BTreeMap::from([
        label("app.kubernetes.io/name", "kubeopencode-server"),
        label("app.kubernetes.io/instance", &agent.name_any()),
        label("app.kubernetes.io/component", "server"),
        label("app.kubernetes.io/managed-by", "kubeopencode"),
        label(names::AGENT_LABEL, &agent.name_any()),
    ])
}

fn selector(agent: &Agent) -> BTreeMap<String, String> {
    BTreeMap::from([(names::AGENT_LABEL.to_owned(), agent.name_any())])
}

fn deployment(agent: &Agent, settings: &Settings, system: &System, contexts: &Contexts, replicas: i32) -> Deployment {
    let name = agent.name_any();
    let workplace = Workplace {
        settings,
        system,
        contexts,
        config_map: &names::server_config_map(&name),
        labels: labels(agent),
        annotations: BTreeMap::from([(names::CONTEXT_HASH_ANNOTATION.to_owned(), digest(contexts))]),
        main: main(agent, settings, system),
    };
    // Two Pods must not hold a volume of one: the old one goes before the new one comes.
    let keeps = agent.spec.persistence.as_ref().is_some_and(|kept| kept.sessions.is_some() || kept.workspace.is_some());
    let replacing = if keeps { Replacing::Recreating } else { Replacing::Rolling };
    let metadata = owned(agent, names::deployment(&name), labels(agent));
    workplace.recipe().deployment(metadata, selector(agent), replicas, replacing)
}

fn main(agent: &Agent, settings: &Settings, system: &System) -> Main {
    let port = agent.spec.port;
    let name = agent.name_any();
    let kept = agent.spec.persistence.clone().unwrap_or_default();
    let mut env = Vec::new();
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    if kept.sessions.is_some() {
        let value = Some(format!("{SESSIONS}/opencode.db"));
        env.push(EnvVar { name: "OPENCODE_DB".into(), value, value_from: None });
        let source = PersistentVolumeClaimVolumeSource { claim_name: names::sessions_claim(&name), read_only: None };
        volumes.push(Volume {
            name: "session-data".into(),
            persistent_volume_claim: Some(source),
            ..Volume::default()
        });
        mounts.push(VolumeMount { name: "session-data".into(), mount_path: SESSIONS.into(), ..VolumeMount::default() });
    }
    let mut takes_files = "";
    if system.helps() {
        env.push(variable("CONTEXT_PORT", context_port(agent, settings).to_string()));
        env.push(from_secret("CONTEXT_TOKEN", &names::context_secret(&name), names::CONTEXT_TOKEN_KEY, false));
        // In the server's own container, because a path outside of the workspace exists only there.
        takes_files =
            "while :; do /tools/kubeopencode context-serve; sleep 1; done &\nunset CONTEXT_TOKEN CONTEXT_PORT\n";
    }
    let script = format!(
        "ln -sf /tools/opencode /usr/local/bin/opencode 2>/dev/null\n{takes_files}exec /tools/opencode serve --port {port} --hostname 0.0.0.0"
    );
    let status = |period, failures, delay| Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/session/status".into()),
            port: IntOrString::Int(port),
            ..Default::default()
        }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        initial_delay_seconds: delay,
        // A request that arrives while the server starts can hang for good.
        timeout_seconds: Some(5),
        ..Probe::default()
    };
    let alive = Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(port), host: None }),
        period_seconds: Some(30),
        failure_threshold: Some(3),
        timeout_seconds: Some(5),
        ..Probe::default()
    };
    Main {
        name: "opencode-server",
        image: settings.images.executor.clone(),
        command: vec!["sh".into(), "-c".into(), script],
        env,
        ports: ports(agent, settings, system),
        startup: Some(status(2, 60, Some(1))),
        liveness: Some(alive),
        readiness: Some(status(10, 3, None)),
        restart_policy: "Always",
        workspace_claim: kept.workspace.is_some().then(|| names::workspace_claim(&name)),
        volumes,
        mounts,
        ..Main::default()
    }
}

/// Where a server takes the files of Tasks: beside its own port, unless the user has another use for it.
pub(crate) fn context_port(agent: &Agent, settings: &Settings) -> i32 {
    let taken = |port: &i32| *port == agent.spec.port || settings.extra_ports.iter().any(|extra| extra.port == *port);
    (1024..=4095).rev().find(|port| !taken(port)).unwrap_or(4095)
}

fn ports(agent: &Agent, settings: &Settings, system: &System) -> Vec<ContainerPort> {
    let own = listens("http", agent.spec.port);
    let more = settings.extra_ports.iter().map(|port| ContainerPort {
        name: Some(port.name.clone()),
        container_port: port.port,
        protocol: Some(protocol(port.protocol).into()),
        ..ContainerPort::default()
    });
    let files = system.helps().then(|| listens(names::CONTEXT_PORT_NAME, context_port(agent, settings)));
    std::iter::once(own).chain(more).chain(files).collect()
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}

fn service(agent: &Agent, settings: &Settings, system: &System) -> Service {
    let ports = ports(agent, settings, system).into_iter().map(|port| ServicePort {
        name: port.name,
        port: port.container_port,
        target_port: Some(IntOrString::Int(port.container_port)),
        protocol: port.protocol,
        ..ServicePort::default()
    });
    Service {
        metadata: owned(agent, agent.name_any(), labels(agent)),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(selector(agent)),
            ports: Some(ports.collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// What a Task must know to bring files to this Agent's server.
pub(super) fn token(agent: &Agent, token: &str) -> Secret {
    let data = BTreeMap::from([(names::CONTEXT_TOKEN_KEY.to_owned(), token.to_owned())]);
    Secret {
        metadata: owned(agent, names::context_secret(&agent.name_any()), labels(agent)),
        string_data: Some(data),
        ..Secret::default()
    }
}

fn claims(agent: &Agent) -> Vec<PersistentVolumeClaim> {
    let kept = agent.spec.persistence.clone().unwrap_or_default();
    let name = agent.name_any();
    let wanted = [(names::sessions_claim(&name), kept.sessions), (names::workspace_claim(&name), kept.workspace)];
    wanted.into_iter().filter_map(|(name, volume)| Some(claim(agent, name, &volume?))).collect()
}

fn claim(agent: &Agent, name: String, volume: &VolumePersistence) -> PersistentVolumeClaim {
    let requests = BTreeMap::from([("storage".to_owned(), Quantity(volume.size.clone()))]);
    PersistentVolumeClaim {
        metadata: owned(agent, name, labels(agent)),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            storage_class_name: volume.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements { requests: Some(requests), limits: None }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// A digest of everything the server reads at its start, so that a change of it makes a new Pod.
fn digest(contexts: &Contexts) -> String {
    let mut hash = Sha256::new();
    for (key, value) in contexts.data() {
        for part in [key, value] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
    }
    hash.finalize().iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
