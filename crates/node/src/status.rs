//! The Pod's status, as a kubelet writes it, from what is known about its containers. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as Declared, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::lifecycle::{Container, Ended, Outcome, State, is_sidecar, restart_delay};

/// What the status needs besides the containers.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The Pod's address.
    pub address: Option<String>,
    /// The node's address.
    pub host: String,
    /// Whether its namespaces are there.
    pub sandboxed: bool,
    /// Why they are not.
    pub trouble: Option<(String, String)>,
    /// What isolates it.
    pub isolation: crate::driver::Isolation,
    /// Limits that this machine cannot enforce, in words.
    pub unenforced: Option<String>,
}

/// Builds the status.
pub fn build(
    pod: &Pod,
    containers: &BTreeMap<String, Container>,
    outcome: &Outcome,
    facts: &Facts,
    now: Timestamp,
) -> PodStatus {
    let spec = pod.spec.clone().unwrap_or_default();
    let before = pod.status.clone().unwrap_or_default();
    let inits = spec.init_containers.clone().unwrap_or_default();
    let get = |name: &str| containers.get(name).cloned().unwrap_or_default();
    let initialized = inits.iter().all(|init| {
        let container = get(&init.name);
        if is_sidecar(init) {
            container.started
        } else {
            matches!(&container.state, State::Ended(ended) if ended.code == 0)
        }
    });
    let (phase, reason, message) = phase(&spec.containers, &get, initialized, outcome);
    let over = matches!(phase, "Succeeded" | "Failed");
    let identity =
        |declared: &Declared| format!("{}/{}", pod.metadata.name.as_deref().unwrap_or_default(), declared.name);
    let status_of = |declared: &Declared, blocked: bool| {
        container_status(declared, &get(&declared.name), &identity(declared), blocked, over)
    };
    let container_statuses: Vec<ContainerStatus> =
        spec.containers.iter().map(|main| status_of(main, !initialized)).collect();
    let init_statuses: Vec<ContainerStatus> = inits.iter().map(|init| status_of(init, false)).collect();
    let sidecars_ready =
        inits.iter().zip(&init_statuses).filter(|(init, _)| is_sidecar(init)).all(|(_, status)| status.ready);
    let unready: Vec<&str> =
        container_statuses.iter().filter(|status| !status.ready).map(|status| status.name.as_str()).collect();
    let ready = initialized && unready.is_empty() && sidecars_ready && !over;
    let why_unready = || match phase {
        "Succeeded" => ("PodCompleted".to_owned(), String::new()),
        "Failed" => ("PodFailed".to_owned(), String::new()),
        _ => ("ContainersNotReady".to_owned(), format!("containers with unready status: [{}]", unready.join(" "))),
    };
    let mut conditions = Conditions { before: before.conditions.unwrap_or_default(), now };
    match &facts.trouble {
        Some((reason, message)) => {
            conditions.set("PodReadyToStartContainers", false, Some((reason.clone(), message.clone())));
        }
        None => conditions.set("PodReadyToStartContainers", facts.sandboxed && !over, None),
    }
    let uninitialized = || ("ContainersNotInitialized".to_owned(), "init containers have not completed".to_owned());
    let initialized_or_over = initialized || phase == "Succeeded";
    conditions.set("Initialized", initialized_or_over, (!initialized_or_over).then(uninitialized));
    conditions.set("ContainersReady", ready, (!ready).then(why_unready));
    conditions.set("Ready", ready, (!ready).then(why_unready));
    if facts.sandboxed {
        let reason = if facts.isolation.in_force { "Namespaces" } else { "NotIsolated" };
        let words = (reason.to_owned(), facts.isolation.summary.clone());
        conditions.set("Isolated", facts.isolation.in_force, Some(words));
    } else if let Some((reason, message)) = &facts.trouble {
        conditions.set("Isolated", false, Some((reason.clone(), message.clone())));
    }
    if let Some(words) = &facts.unenforced {
        conditions.set("LimitsEnforced", false, Some(("NotAvailable".to_owned(), words.clone())));
    }
    PodStatus {
        phase: Some(phase.to_owned()),
        reason,
        message,
        conditions: Some(conditions.before),
        host_ip: Some(facts.host.clone()),
        host_ips: Some(vec![HostIP { ip: facts.host.clone() }]),
        pod_ip: facts.address.clone(),
        pod_ips: facts.address.clone().map(|ip| vec![PodIP { ip }]),
        start_time: before.start_time.or(Some(Time(now))),
        container_statuses: Some(container_statuses),
        init_container_statuses: (!init_statuses.is_empty()).then_some(init_statuses),
        qos_class: before.qos_class.or_else(|| Some(quality(&spec.containers).to_owned())),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

fn phase(
    mains: &[Declared],
    get: &impl Fn(&str) -> Container,
    initialized: bool,
    outcome: &Outcome,
) -> (&'static str, Option<String>, Option<String>) {
    match outcome {
        Outcome::Succeeded => ("Succeeded", None, None),
        Outcome::Failed { reason, message } => ("Failed", reason.clone(), message.clone()),
        Outcome::Open => {
            let began = mains.iter().any(|main| get(&main.name).attempts > 0);
            (if initialized && began { "Running" } else { "Pending" }, None, None)
        }
    }
}

fn container_status(
    declared: &Declared,
    container: &Container,
    identity: &str,
    blocked: bool,
    over: bool,
) -> ContainerStatus {
    let waiting = |reason: &str, message: Option<String>| ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ContainerState::default()
    };
    let mut last = container.last.clone();
    let running = matches!(container.state, State::Running { .. });
    let state = match (&container.state, &container.obstacle) {
        (State::Running { since }, _) => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(*since)) }),
            ..ContainerState::default()
        },
        (State::Ended(ended), None) if over || !container.will_wait() => terminated(ended, identity),
        (State::Ended(ended), obstacle) => {
            last = Some(ended.clone());
            if let Some(obstacle) = obstacle {
                waiting(&obstacle.reason, Some(obstacle.message.clone()))
            } else {
                let delay = restart_delay(container.crashes).as_secs();
                let words = format!("back-off {delay}s restarting failed container={}", declared.name);
                waiting("CrashLoopBackOff", Some(words))
            }
        }
        (State::Waiting, Some(obstacle)) => waiting(&obstacle.reason, Some(obstacle.message.clone())),
        (State::Waiting, None) if blocked => waiting("PodInitializing", None),
        (State::Waiting, None) => waiting("ContainerCreating", None),
    };
    ContainerStatus {
        name: declared.name.clone(),
        image: declared.image.clone().unwrap_or_default(),
        image_id: declared.image.clone().unwrap_or_default(),
        container_id: (container.attempts > 0).then(|| container_id(identity, container.attempts)),
        ready: container.ready && running || is_finished_init(container, declared),
        started: Some(container.started && running),
        restart_count: i32::try_from(container.attempts.saturating_sub(1)).unwrap_or(i32::MAX),
        state: Some(state),
        last_state: Some(last.map_or_else(ContainerState::default, |ended| terminated(&ended, identity))),
        ..ContainerStatus::default()
    }
}

/// A plain init container that ended well is `ready`, as Kubernetes has it. A main container that ended is not.
fn is_finished_init(container: &Container, _declared: &Declared) -> bool {
    container.ready && matches!(&container.state, State::Ended(ended) if ended.code == 0)
}

fn container_id(identity: &str, attempts: u32) -> String {
    format!("orrery://{identity}/{}", attempts - 1)
}

fn terminated(ended: &Ended, identity: &str) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: ended.code,
            signal: ended.signal,
            reason: Some(ended.reason.clone()),
            message: ended.message.clone(),
            started_at: Some(Time(ended.started)),
            finished_at: Some(Time(ended.finished)),
            container_id: Some(format!("orrery://{identity}")),
        }),
        ..ContainerState::default()
    }
}

impl Container {
    /// Whether it ended and waits for its next start long enough for a person to see it.
    pub fn will_wait(&self) -> bool {
        self.waits_for_restart && restart_delay(self.crashes) > jiff::SignedDuration::ZERO
    }
}

struct Conditions {
    before: Vec<PodCondition>,
    now: Timestamp,
}

impl Conditions {
    /// Sets a condition; its time changes only when its status does.
    fn set(&mut self, kind: &str, status: bool, why: Option<(String, String)>) {
        let status = if status { "True" } else { "False" }.to_owned();
        let (reason, message) = why.map_or((None, None), |(reason, message)| {
            (Some(reason), Some(message).filter(|message| !message.is_empty()))
        });
        let existing = self.before.iter().position(|condition| condition.type_ == kind);
        let since = existing
            .map(|index| &self.before[index])
            .filter(|condition| condition.status == status)
            .and_then(|condition| condition.last_transition_time.clone())
            .or(Some(Time(self.now)));
        let condition = PodCondition {
            type_: kind.to_owned(),
            status,
            reason,
            message,
            last_transition_time: since,
            ..PodCondition::default()
        };
        match existing {
            Some(index) => self.before[index] = condition,
            None => self.before.push(condition),
        }
    }
}

fn quality(containers: &[Declared]) -> &'static str {
    let both = |container: &Declared| {
        let resources = container.resources.clone().unwrap_or_default();
        (resources.requests.unwrap_or_default(), resources.limits.unwrap_or_default())
    };
    if containers.iter().map(both).all(|(requests, limits)| requests.is_empty() && limits.is_empty()) {
        return "BestEffort";
    }
    let guaranteed = containers.iter().map(both).all(|(requests, limits)| {
        ["cpu", "memory"].iter().all(|name| {
            limits.get(*name).is_some_and(|limit| requests.get(*name).is_none_or(|request| request == limit))
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}
