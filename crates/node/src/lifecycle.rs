//! What to do next with a Pod, decided from what is known about it. No clock, no I/O.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container as Declared, Pod, PodSpec};

/// A container that ran this long before it ended is not in a crash loop.
const STEADY: SignedDuration = SignedDuration::from_mins(10);
/// The first wait of a crash loop.
const FIRST_DELAY: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait of a crash loop.
const LONGEST_DELAY: SignedDuration = SignedDuration::from_mins(5);

/// What is known about a container.
#[derive(Clone, Debug, Default)]
pub struct Container {
    /// How often it was started.
    pub attempts: u32,
    /// What it is now.
    pub state: State,
    /// How it ended the time before.
    pub last: Option<Ended>,
    /// Ends in a row without a steady run between them.
    pub crashes: u32,
    /// Why it could not be started, and when to try again.
    pub obstacle: Option<Obstacle>,
    /// Startup probe and postStart hook are done.
    pub started: bool,
    /// Its readiness probe passes (or it has none and runs).
    pub ready: bool,
    /// It was asked to end, and will be made to at this time.
    pub stopping: Option<Timestamp>,
    /// It ended and will be started again.
    pub waits_for_restart: bool,
    /// Tries to start it that failed, for the wait between them.
    pub tries: u32,
}

/// State of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// Not started, or not yet again.
    #[default]
    Waiting,
    /// Its command runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// It ended.
    Ended(Ended),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Exit code.
    pub code: i32,
    /// Signal that killed it.
    pub signal: Option<i32>,
    /// `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, …
    pub reason: String,
    /// More words.
    pub message: Option<String>,
    /// When it was started.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
}

/// Why a container cannot be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Obstacle {
    /// `ErrImagePull`, `CreateContainerConfigError`, …
    pub reason: String,
    /// In words.
    pub message: String,
    /// When to try again.
    pub retry: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start this container.
    Start(String),
    /// End this container: preStop, SIGTERM, and SIGKILL at the given time.
    Stop {
        /// The container.
        container: String,
        /// When patience ends.
        deadline: Timestamp,
    },
}

/// Where the Pod's life leads.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It goes on.
    Open,
    /// All containers have ended and none will start again.
    Succeeded,
    /// The same, and not all of them well.
    Failed {
        /// `DeadlineExceeded` or none.
        reason: Option<String>,
        /// In words.
        message: Option<String>,
    },
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// In this order.
    pub actions: Vec<Action>,
    /// Where it leads; when it is not open, nothing runs any more.
    pub outcome: Outcome,
    /// When to decide again although nothing happened.
    pub wake: Option<Timestamp>,
}

impl Decision {
    fn wait(actions: Vec<Action>) -> Self {
        Self { actions, outcome: Outcome::Open, wake: None }
    }

    fn wake_at(&mut self, time: Timestamp) {
        self.wake = Some(self.wake.map_or(time, |wake| wake.min(time)));
    }
}

/// Decides.
pub fn decide(pod: &Pod, containers: &BTreeMap<String, Container>, now: Timestamp) -> Decision {
    let Some(spec) = &pod.spec else { return Decision::wait(Vec::new()) };
    let view = View { spec, containers, now };
    if let Some(deadline) = deletion_deadline(pod) {
        return view.stop_all(deadline, view.result());
    }
    if let Some(end) = active_deadline(pod) {
        if now >= end {
            let grace = SignedDuration::from_secs(spec.termination_grace_period_seconds.unwrap_or(30));
            let failed = Outcome::Failed {
                reason: Some("DeadlineExceeded".into()),
                message: Some("Pod was active on the node longer than the specified deadline".into()),
            };
            return view.stop_all(end + grace, failed);
        }
        let mut decision = view.run();
        if decision.outcome == Outcome::Open {
            decision.wake_at(end);
        }
        return decision;
    }
    view.run()
}

/// When a Pod that is being deleted must be gone.
pub fn deletion_deadline(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.deletion_timestamp.as_ref().map(|time| time.0)
}

fn active_deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let start = pod.status.as_ref()?.start_time.as_ref()?.0;
    Some(start + SignedDuration::from_secs(seconds))
}

/// Whether an init container runs beside the main containers.
pub fn is_sidecar(container: &Declared) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// How long to wait before the next start after so many ends in a row.
pub fn restart_delay(crashes: u32) -> SignedDuration {
    match crashes {
        0 | 1 => SignedDuration::ZERO,
        many => {
            let factor = 1_i32 << (many - 2).min(10);
            (FIRST_DELAY * factor).min(LONGEST_DELAY)
        }
    }
}

/// Ends in a row, after this one.
pub fn count_crashes(before: u32, ended: &Ended) -> u32 {
    if ended.finished.duration_since(ended.started) >= STEADY { 1 } else { before + 1 }
}

struct View<'a> {
    spec: &'a PodSpec,
    containers: &'a BTreeMap<String, Container>,
    now: Timestamp,
}

impl View<'_> {
    fn get(&self, name: &str) -> Container {
        self.containers.get(name).cloned().unwrap_or_default()
    }

    fn inits(&self) -> &[Declared] {
        self.spec.init_containers.as_deref().unwrap_or_default()
    }

    fn policy(&self) -> &str {
        self.spec.restart_policy.as_deref().unwrap_or("Always")
    }

    fn restarts(&self, code: i32) -> bool {
        match self.policy() {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => true,
        }
    }

    fn run(&self) -> Decision {
        let is_over = |main: &Declared| match self.get(&main.name).state {
            State::Ended(ended) => !self.restarts(ended.code),
            _ => false,
        };
        // Asked first: sidecars that have ended by now are not wanted back.
        if self.spec.containers.iter().all(is_over) {
            return self.stop_all(self.grace(), self.result());
        }
        let mut decision = Decision::wait(Vec::new());
        for init in self.inits() {
            let container = self.get(&init.name);
            let passed = if is_sidecar(init) {
                self.keep_running(&init.name, &container, &mut decision);
                container.started
            } else {
                match &container.state {
                    State::Ended(ended) if ended.code == 0 => true,
                    State::Ended(_) if self.policy() == "Never" => {
                        let failed = Outcome::Failed { reason: None, message: None };
                        return self.stop_all(self.grace(), failed);
                    }
                    _ => {
                        self.keep_running(&init.name, &container, &mut decision);
                        false
                    }
                }
            };
            if !passed {
                return decision;
            }
        }
        for main in self.spec.containers.iter().filter(|main| !is_over(main)) {
            self.keep_running(&main.name, &self.get(&main.name), &mut decision);
        }
        decision
    }

    /// Starts what does not run, now or when its time has come.
    fn keep_running(&self, name: &str, container: &Container, decision: &mut Decision) {
        let due = match &container.state {
            State::Running { .. } => return,
            State::Waiting => container.obstacle.as_ref().map(|obstacle| obstacle.retry),
            State::Ended(ended) => {
                let wait = ended.finished + restart_delay(container.crashes);
                Some(container.obstacle.as_ref().map_or(wait, |obstacle| obstacle.retry.max(wait)))
            }
        };
        match due {
            Some(due) if due > self.now => decision.wake_at(due),
            _ => decision.actions.push(Action::Start(name.to_owned())),
        }
    }

    fn grace(&self) -> Timestamp {
        self.now + SignedDuration::from_secs(self.spec.termination_grace_period_seconds.unwrap_or(30))
    }

    fn result(&self) -> Outcome {
        let code = |declared: &Declared| match self.get(&declared.name).state {
            State::Ended(ended) => ended.code,
            // It never ran, and will not: that is no success.
            _ => 1,
        };
        if self.spec.containers.iter().all(|main| code(main) == 0) {
            Outcome::Succeeded
        } else {
            Outcome::Failed { reason: None, message: None }
        }
    }

    /// Ends everything: first what does the work, then the sidecars, the last one started first.
    fn stop_all(&self, deadline: Timestamp, outcome: Outcome) -> Decision {
        let running = |name: &str| matches!(self.get(name).state, State::Running { .. });
        let plain_inits = self.inits().iter().filter(|init| !is_sidecar(init));
        let workers: Vec<&str> = self
            .spec
            .containers
            .iter()
            .chain(plain_inits)
            .map(|c| c.name.as_str())
            .filter(|name| running(name))
            .collect();
        let last_sidecar =
            self.inits().iter().filter(|init| is_sidecar(init)).map(|c| c.name.as_str()).rfind(|name| running(name));
        let ending: Vec<&str> = if workers.is_empty() { last_sidecar.into_iter().collect() } else { workers };
        if ending.is_empty() {
            return Decision { actions: Vec::new(), outcome, wake: None };
        }
        let actions = ending
            .into_iter()
            .filter(|name| self.get(name).stopping.is_none_or(|patience| deadline < patience))
            .map(|name| Action::Stop { container: name.to_owned(), deadline })
            .collect();
        Decision::wait(actions)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better at the callers")]
    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).expect("a Pod")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("a time")
    }

    fn ended(code: i32, second: i64) -> Container {
        let ended = Ended {
            code,
            signal: None,
            reason: "Error".into(),
            message: None,
            started: at(second - 1),
            finished: at(second),
        };
        Container { attempts: 1, crashes: 1, state: State::Ended(ended), ..Container::default() }
    }

    fn running() -> Container {
        Container { attempts: 1, started: true, state: State::Running { since: at(0) }, ..Container::default() }
    }

    fn known(list: &[(&str, Container)]) -> BTreeMap<String, Container> {
        list.iter().map(|(name, container)| ((*name).to_owned(), container.clone())).collect()
    }

    fn starts(decision: &Decision) -> Vec<String> {
        let name = |action: &'_ Action| match action {
            Action::Start(name) => Some(name.clone()),
            Action::Stop { .. } => None,
        };
        decision.actions.iter().filter_map(name).collect()
    }

    #[test]
    fn init_containers_come_first_and_in_order() {
        let pod = pod(json!({ "initContainers": [{ "name": "a" }, { "name": "b" }], "containers": [{ "name": "m" }] }));
        assert_eq!(starts(&decide(&pod, &known(&[]), at(0))), ["a"]);
        assert_eq!(starts(&decide(&pod, &known(&[("a", running())]), at(0))), [""; 0]);
        assert_eq!(starts(&decide(&pod, &known(&[("a", ended(0, 1))]), at(2))), ["b"]);
        assert_eq!(starts(&decide(&pod, &known(&[("a", ended(0, 1)), ("b", ended(0, 2))]), at(3))), ["m"]);
    }

    #[test]
    fn a_failed_init_container_fails_a_pod_that_never_restarts() {
        let spec =
            json!({ "restartPolicy": "Never", "initContainers": [{ "name": "a" }], "containers": [{ "name": "m" }] });
        let decision = decide(&pod(spec), &known(&[("a", ended(1, 1))]), at(2));
        assert!(matches!(decision.outcome, Outcome::Failed { .. }));
        assert!(decision.actions.is_empty());
    }

    #[test]
    fn a_sidecar_starts_before_the_work_and_ends_after_it() {
        let spec = json!({
            "restartPolicy": "Never",
            "initContainers": [{ "name": "s", "restartPolicy": "Always" }],
            "containers": [{ "name": "m" }],
        });
        let pod = pod(spec);
        assert_eq!(starts(&decide(&pod, &known(&[]), at(0))), ["s"]);
        assert_eq!(starts(&decide(&pod, &known(&[("s", running())]), at(0))), ["m"]);
        let after = decide(&pod, &known(&[("s", running()), ("m", ended(0, 1))]), at(2));
        assert!(matches!(&after.actions[..], [Action::Stop { container, .. }] if container == "s"));
        assert_eq!(after.outcome, Outcome::Open);
        let over = decide(&pod, &known(&[("s", ended(143, 3)), ("m", ended(0, 1))]), at(4));
        assert_eq!(over.outcome, Outcome::Succeeded);
    }

    #[test]
    fn a_container_that_ran_once_never_runs_again_unless_it_may() {
        for (policy, code, again) in [
            ("Never", 1, false),
            ("Never", 0, false),
            ("OnFailure", 0, false),
            ("OnFailure", 1, true),
            ("Always", 0, true),
        ] {
            let pod = pod(json!({ "restartPolicy": policy, "containers": [{ "name": "m" }] }));
            let decision = decide(&pod, &known(&[("m", ended(code, 1))]), at(2));
            assert_eq!(starts(&decision).len(), usize::from(again), "{policy} after {code}");
        }
    }

    #[test]
    fn a_crash_loop_waits_longer_and_longer() {
        let seconds: Vec<i64> = (0..9).map(|crashes| restart_delay(crashes).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 10, 20, 40, 80, 160, 300, 300]);
        let pod = pod(json!({ "containers": [{ "name": "m" }] }));
        let mut container = ended(1, 100);
        container.crashes = 3;
        let decision = decide(&pod, &known(&[("m", container.clone())]), at(105));
        assert!(decision.actions.is_empty());
        assert_eq!(decision.wake, Some(at(120)));
        assert_eq!(starts(&decide(&pod, &known(&[("m", container)]), at(120))), ["m"]);
    }

    #[test]
    fn a_deadline_ends_the_pod_and_says_so() {
        let mut pod = pod(
            json!({ "activeDeadlineSeconds": 10, "terminationGracePeriodSeconds": 5, "containers": [{ "name": "m" }] }),
        );
        pod.status = serde_json::from_value(json!({ "startTime": at(0) })).ok();
        assert_eq!(decide(&pod, &known(&[("m", running())]), at(5)).wake, Some(at(10)));
        let decision = decide(&pod, &known(&[("m", running())]), at(11));
        assert_eq!(decision.actions, [Action::Stop { container: "m".into(), deadline: at(15) }]);
        let over = decide(&pod, &known(&[("m", ended(143, 12))]), at(13));
        assert!(matches!(over.outcome, Outcome::Failed { reason: Some(reason), .. } if reason == "DeadlineExceeded"));
    }

    #[test]
    fn a_shorter_grace_is_heard() {
        let mut pod = pod(json!({ "containers": [{ "name": "m" }] }));
        let mut container = running();
        container.stopping = Some(at(30));
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(30)));
        assert!(decide(&pod, &known(&[("m", container.clone())]), at(1)).actions.is_empty());
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(2)));
        assert_eq!(decide(&pod, &known(&[("m", container)]), at(1)).actions.len(), 1);
    }
}
