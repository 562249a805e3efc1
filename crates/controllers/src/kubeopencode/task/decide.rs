//! What to do about a Task. Pure.
//!
//! The order of writes is what makes a Task run once. Admission is a conditional write of the Task's own status; only
//! then its Pod is created, under a name of its own and with a finalizer that keeps it until the end is recorded. So a
//! Task that is Running without a Pod has never had one, and a Pod that disappears says so first.

use api::kubeopencode::{Agent, Session, Task, TaskPhase, TaskStatus, names};
use engine::{Conditions, Decision, Event, Failure, FailureKind, Outcome};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::Policy;
use super::observe::{Observed, Present, is_tracked};
use super::outcome::{PodState, pod_state};
use super::recipe::{self, Unready};
use crate::kubeopencode::host::Host;
use crate::kubeopencode::owner::belongs_to;

/// Decides.
pub fn decide(observed: &Observed, policy: &Policy, now: Timestamp) -> Decision {
    match observed {
        Observed::Orphan(pod) => release(pod),
        Observed::Task(present) => Deciding::new(present, policy, now).decide(),
    }
}

/// Lets a Pod go.
fn release(pod: &Pod) -> Decision {
    let mut decision = Decision::none();
    decision.remove_finalizer(pod, names::TRACKING_FINALIZER);
    decision
}

/// Why a Task must be stopped now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    User,
    Timeout,
}

/// Whether a Task that has not ended must be stopped.
pub(super) fn stop_reason(task: &Task, now: Timestamp) -> Option<Stop> {
    if task.annotations().get(names::STOP_ANNOTATION).is_some_and(|value| value == "true") {
        return Some(Stop::User);
    }
    deadline(task).is_some_and(|deadline| now >= deadline).then_some(Stop::Timeout)
}

/// When a started Task runs out of time.
fn deadline(task: &Task) -> Option<Timestamp> {
    let timeout = task.spec.timeout.as_ref()?.parse().ok()?;
    let start = task.status.as_ref()?.start_time.as_ref()?;
    start.0.checked_add(timeout).ok()
}

struct Deciding<'a> {
    present: &'a Present,
    task: &'a Task,
    policy: &'a Policy,
    now: Timestamp,
    status: TaskStatus,
    conditions: Conditions,
    decision: Decision,
}

impl<'a> Deciding<'a> {
    fn new(present: &'a Present, policy: &'a Policy, now: Timestamp) -> Self {
        let task = &*present.task;
        let status = task.status.clone().unwrap_or_default();
        let conditions = Conditions::new(&status.conditions, task.metadata.generation, now);
        Self { present, task, policy, now, status, conditions, decision: Decision::none() }
    }

    fn decide(self) -> Decision {
        let uid = self.task.uid().unwrap_or_default();
        let pod = self.present.pod.as_deref();
        let (own, foreign) = match pod {
            Some(pod) if belongs_to(pod, &uid) => (Some(pod), None),
            other => (None, other),
        };
        if self.status.phase.is_some_and(TaskPhase::is_final) || self.task.metadata.deletion_timestamp.is_some() {
            return own.map(|pod| self.leave(pod)).unwrap_or_default();
        }
        if let Some(foreign) = foreign {
            return self.blocked_by(foreign);
        }
        match (self.status.phase, own) {
            (_, Some(pod)) => self.run(pod),
            (Some(TaskPhase::Running), None) => self.start(),
            _ => self.admit(),
        }
    }

    /// The end is recorded: the Pod may go. A Pod of a Task that is being deleted goes with it.
    fn leave(&self, pod: &Pod) -> Decision {
        let mut decision = Decision::none();
        let alive = matches!(pod_state(pod, self.now), PodState::Alive | PodState::Stuck { .. });
        if alive {
            decision.delete(pod);
        } else {
            decision.remove_finalizer(pod, names::TRACKING_FINALIZER);
        }
        decision
    }

    /// The Pod of a Task that had this name before.
    fn blocked_by(mut self, pod: &Pod) -> Decision {
        let message = format!("Pod {} belongs to something else and must be gone first", pod.name_any());
        self.conditions.set("Ready", false, "PodConflict", message.clone());
        self.status.phase.get_or_insert(TaskPhase::Pending);
        self.decision.outcome(Outcome::Waiting(message));
        self.finish()
    }

    /// A Task that has not started: is it its turn?
    fn admit(mut self) -> Decision {
        if stop_reason(self.task, self.now) == Some(Stop::User) {
            return self.stopped(Stop::User, "stopped while queued, before it started");
        }
        let host = &self.present.host;
        if let Host::Agent(observed) = host {
            self.status.agent_ref.clone_from(&self.task.spec.agent_ref);
            if let Some((reason, message)) = agent_not_ready(&observed.agent) {
                return self.queue(reason, message);
            }
        } else {
            self.status.template_ref.clone_from(&self.task.spec.template_ref);
        }
        let limits = host.limits();
        let admitted = host.active_tasks().iter().any(|active| Some(&active.uid) == self.task.metadata.uid.as_ref());
        if !limits.are_none() && !admitted {
            let full = limits.concurrent.is_some_and(|most| host.active_tasks().len() >= most);
            let (reason, message) = if full || limits.quota.is_none() {
                let most = limits.concurrent.unwrap_or_default();
                ("AgentAtCapacity", format!("all {most} slots of maxConcurrentTasks are taken"))
            } else {
                let quota = limits.quota.as_ref();
                let (starts, window) = quota.map_or((0, 0), |quota| (quota.max_task_starts, quota.window_seconds));
                ("QuotaExceeded", format!("the quota of {starts} starts in {window} s is used up"))
            };
            return self.queue(reason, message);
        }
        if !limits.are_none() {
            self.conditions.set("Queued", false, "CapacityAvailable", "admitted");
        }
        self.start()
    }

    fn queue(mut self, reason: &str, message: String) -> Decision {
        let news =
            engine::condition::find(&self.status.conditions, "Queued").is_none_or(|known| known.reason != reason);
        self.status.phase = Some(TaskPhase::Queued);
        self.conditions.set("Queued", true, reason, message.clone());
        if news {
            self.decision.event(Event::normal(self.task, reason, "Queue", message.clone()));
        }
        self.decision.outcome(Outcome::Waiting(message));
        self.finish()
    }

    /// Records that the Task runs, then makes its Pod. After a crash in between, this does the rest.
    fn start(mut self) -> Decision {
        let (config_map, pod) = match recipe::objects(self.present, self.policy) {
            Ok(objects) => objects,
            Err(unready) => return self.unready(&unready),
        };
        if stop_reason(self.task, self.now) == Some(Stop::User) {
            return self.stopped(Stop::User, "stopped before its Pod was created");
        }
        if self.status.phase != Some(TaskPhase::Running) {
            self.status.phase = Some(TaskPhase::Running);
            self.status.start_time = Some(Time(self.now));
            self.status.pod_name.clone_from(&pod.metadata.name);
            if let Host::Agent(_) = self.present.host {
                self.status.session = Some(Session { title: Some(recipe::title(self.task)), ..Session::default() });
            }
        }
        self.conditions.set("Ready", true, "Started", format!("runs in Pod {}", pod.name_any()));
        self.write_status();
        self.decision.create(&config_map).create(&pod);
        let note = format!("created Pod {}", pod.name_any());
        self.decision.event(Event::normal(self.task, "PodCreated", "CreatePod", note));
        self.watch_the_clock();
        self.decision
    }

    /// What it needs is not there, or cannot work. What may still come is waited for, for a while.
    fn unready(mut self, unready: &Unready) -> Decision {
        let message = unready.to_string();
        let created = self.task.creation_timestamp().map_or(self.now, |time| time.0);
        let patience = SignedDuration::try_from(self.policy.dependency_patience).unwrap_or(SignedDuration::ZERO);
        let until = created.checked_add(patience).unwrap_or(self.now);
        if unready.may_pass() && self.now < until {
            self.conditions.set("Ready", false, unready.reason(), format!("waiting: {message}"));
            self.status.phase.get_or_insert(TaskPhase::Pending);
            self.decision.look_again(until.min(self.now + SignedDuration::from_secs(5)));
            self.decision.outcome(Outcome::Waiting(message));
            return self.finish();
        }
        self.conditions.set("Ready", false, unready.reason(), message.clone());
        self.end(TaskPhase::Failed, unready.reason(), message)
    }

    /// The Pod is there.
    fn run(mut self, pod: &Pod) -> Decision {
        let state = pod_state(pod, self.now);
        if let Some(stop) = stop_reason(self.task, self.now) {
            return self.stop(stop, pod, &state);
        }
        match state {
            PodState::Alive => {
                if engine::condition::find(&self.status.conditions, "Ready").is_some_and(|known| known.status != "True")
                {
                    self.conditions.set("Ready", true, "Started", format!("runs in Pod {}", pod.name_any()));
                }
                self.mark_running(pod);
                self.watch_the_clock();
                self.finish()
            }
            PodState::Stuck { reason, message } => self.stuck(pod, &reason, &message),
            PodState::Leaving(until) => {
                self.mark_running(pod);
                self.decision.look_again(until);
                self.finish()
            }
            PodState::Lost => {
                let message = format!("Pod {} was deleted while the Task was running", pod.name_any());
                let decision = self.end(TaskPhase::Failed, "PodLost", message);
                then_release(decision, pod)
            }
            PodState::Succeeded => match self.session_error() {
                None => then_release(self.end(TaskPhase::Completed, "Completed", "the agent finished".into()), pod),
                Some(error) => {
                    let message = format!("the process ended well, but the agent's session did not: {error}");
                    then_release(self.end(TaskPhase::Failed, "SessionError", message), pod)
                }
            },
            PodState::Failed { reason, message } => {
                // The agent knows better than its exit code what went wrong.
                let (reason, message) = match self.session_error() {
                    Some(error) if message.contains(&error) => ("SessionError".into(), message),
                    Some(error) => ("SessionError".into(), format!("{message}: {error}")),
                    None => (word(&reason), message),
                };
                then_release(self.end(TaskPhase::Failed, &reason, message), pod)
            }
        }
    }

    /// A Pod of ours without a record of the start can only be from a status write that was undone (a restored
    /// backup): it is recorded again.
    fn mark_running(&mut self, pod: &Pod) {
        if self.status.phase != Some(TaskPhase::Running) {
            self.status.phase = Some(TaskPhase::Running);
            self.status.start_time = pod.creation_timestamp().or(Some(Time(self.now)));
            self.status.pod_name = Some(pod.name_any());
        }
    }

    /// The Pod cannot start: said at once, and given up after a while so that it does not hold a slot for ever.
    fn stuck(mut self, pod: &Pod, reason: &str, message: &str) -> Decision {
        self.mark_running(pod);
        self.conditions.set("Ready", false, &word(reason), message);
        let conditions = std::mem::replace(&mut self.conditions, Conditions::new(&[], None, self.now)).finish();
        let since =
            engine::condition::find(&conditions, "Ready").map_or(self.now, |ready| ready.last_transition_time.0);
        self.conditions = Conditions::new(&conditions, self.task.metadata.generation, self.now);
        let patience = SignedDuration::try_from(self.policy.image_patience).unwrap_or(SignedDuration::ZERO);
        let until = since.checked_add(patience).unwrap_or(self.now);
        if self.now < until {
            self.decision.look_again(until);
            self.watch_the_clock();
            self.decision.outcome(Outcome::Waiting(message.to_owned()));
            return self.finish();
        }
        let mut decision = self.end(TaskPhase::Failed, &word(reason), format!("gave up: {message}"));
        decision.delete(pod);
        decision
    }

    /// Asks the Pod to end, and records the end when it has.
    fn stop(mut self, stop: Stop, pod: &Pod, state: &PodState) -> Decision {
        match state {
            PodState::Alive | PodState::Stuck { .. } => {
                self.mark_running(pod);
                let mut decision = self.finish();
                decision.delete(pod);
                decision
            }
            PodState::Leaving(until) => {
                let mut decision = self.finish();
                decision.look_again(*until);
                decision
            }
            // It was faster than the request to stop it.
            PodState::Succeeded => {
                then_release(self.end(TaskPhase::Completed, "Completed", "the agent finished".into()), pod)
            }
            PodState::Lost | PodState::Failed { .. } => {
                let message = match stop {
                    Stop::User => "stopped by the user",
                    Stop::Timeout => "timed out: it ran longer than spec.timeout allows",
                };
                then_release(self.stopped(stop, message), pod)
            }
        }
    }

    fn stopped(mut self, stop: Stop, message: &str) -> Decision {
        let (reason, event) = match stop {
            Stop::User => ("UserStopped", "Stopped"),
            Stop::Timeout => ("Timeout", "Timeout"),
        };
        self.conditions.set("Stopped", true, reason, message);
        self.conditions.set("Complete", true, reason, message);
        self.take_session();
        self.status.phase = Some(TaskPhase::Completed);
        self.status.completion_time = Some(Time(self.now));
        self.decision.event(Event::normal(self.task, event, "Stop", message));
        self.finish()
    }

    fn end(mut self, phase: TaskPhase, reason: &str, message: String) -> Decision {
        let type_ = if phase == TaskPhase::Completed { "Complete" } else { "Failed" };
        self.conditions.set(type_, true, reason, message.clone());
        self.take_session();
        self.status.phase = Some(phase);
        self.status.completion_time = Some(Time(self.now));
        let event = if phase == TaskPhase::Completed { Event::normal } else { Event::warning };
        self.decision.event(event(self.task, type_.replace("Complete", "Completed"), "Finish".to_owned(), message));
        self.finish()
    }

    fn session_error(&self) -> Option<String> {
        self.present.session.as_ref().and_then(|report| report.error.clone())
    }

    fn take_session(&mut self) {
        if let Some(report) = &self.present.session {
            self.status.session = Some(report.session.clone());
        }
    }

    fn watch_the_clock(&mut self) {
        let timeout = self.task.spec.timeout.as_ref().and_then(|timeout| timeout.parse().ok());
        let start = self.status.start_time.as_ref().map(|start| start.0);
        if let (Some(timeout), Some(start)) = (timeout, start)
            && let Ok(deadline) = start.checked_add(timeout)
        {
            self.decision.look_again(deadline.max(self.now));
        }
    }

    fn finish(mut self) -> Decision {
        self.write_status();
        self.decision
    }

    fn write_status(&mut self) {
        let conditions = std::mem::replace(&mut self.conditions, Conditions::new(&[], None, self.now));
        self.status.conditions = conditions.finish();
        self.status.observed_generation = self.task.metadata.generation;
        self.decision.status(self.task, self.task.status.as_ref(), &self.status);
    }
}

/// The end is written before the Pod is let go.
fn then_release(mut decision: Decision, pod: &Pod) -> Decision {
    if is_tracked(pod) {
        decision.remove_finalizer(pod, names::TRACKING_FINALIZER);
    }
    decision
}

/// Why an Agent cannot take a Task now.
fn agent_not_ready(agent: &Agent) -> Option<(&'static str, String)> {
    let status = agent.status.clone().unwrap_or_default();
    let name = agent.name_any();
    if agent.spec.suspend == Some(true) {
        return Some((
            "AgentSuspended",
            format!("Agent {name} is suspended: resume it with `orrery resume agent {name}`"),
        ));
    }
    (!status.ready).then(|| ("AgentServerNotReady", format!("the server of Agent {name} is not ready")))
}

/// A reason as a condition allows it.
fn word(reason: &str) -> String {
    let word: String = reason.chars().filter(char::is_ascii_alphanumeric).collect();
    if word.starts_with(|c: char| c.is_ascii_alphabetic()) { word } else { "Error".into() }
}

/// What to say when the API server refused a step.
pub(super) fn refused(observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
    let Observed::Task(present) = observed else { return Decision::none() };
    let task = &*present.task;
    let mut status = task.status.clone().unwrap_or_default();
    // With a Pod there is nothing to create: what was refused is tried again, and the Task is none the worse for it.
    if status.phase.is_some_and(TaskPhase::is_final) || present.pod.is_some() {
        return Decision::none();
    }
    let mut conditions = Conditions::new(&status.conditions, task.metadata.generation, now);
    conditions.set("Ready", false, "PodCreationError", &failure.message);
    let mut decision = Decision::none();
    if failure.kind == FailureKind::Permanent {
        conditions.set("Failed", true, "PodCreationError", &failure.message);
        status.phase = Some(TaskPhase::Failed);
        status.completion_time = Some(Time(now));
        decision.event(Event::warning(task, "PodCreationFailed", "CreatePod", &failure.message));
    }
    status.conditions = conditions.finish();
    decision.status(task, task.status.as_ref(), &status);
    decision
}
