//! What to do about a CronTask. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kubeopencode::{ConcurrencyPolicy, CronTask, CronTaskStatus, Task, TaskPhase, names};
use engine::{Conditions, Decision, Event, Failure, Outcome};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::observe::{Observed, Present, is_tracked};
use super::schedule::{Due, Schedule};
use crate::kubeopencode::owner::{belongs_to, owned};

/// A ledger that is further ahead than this was written by a clock that was wrong.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(120);

/// On a CronTask: a manual run that was accepted; holds the name of its Task until the status has it.
const TRIGGERED_ANNOTATION: &str = "kubeopencode.io/triggered";

/// Decides.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    match observed {
        Observed::Orphans(tasks) => {
            let mut decision = Decision::none();
            for task in tasks {
                decision.remove_finalizer(&**task, names::TRACKING_FINALIZER);
            }
            decision
        }
        Observed::CronTask(present) => Deciding::new(present, now).decide(),
    }
}

struct Deciding<'a> {
    present: &'a Present,
    cron: &'a CronTask,
    now: Timestamp,
    status: CronTaskStatus,
    conditions: Conditions,
    decision: Decision,
}

impl<'a> Deciding<'a> {
    fn new(present: &'a Present, now: Timestamp) -> Self {
        let cron = &*present.cron;
        let status = cron.status.clone().unwrap_or_default();
        let conditions = Conditions::new(&status.conditions, cron.metadata.generation, now);
        Self { present, cron, now, status, conditions, decision: Decision::none() }
    }

    fn decide(mut self) -> Decision {
        if self.cron.metadata.deletion_timestamp.is_some() {
            for task in self.present.children.iter().filter(|task| is_tracked(task)) {
                self.decision.remove_finalizer(&**task, names::TRACKING_FINALIZER);
            }
            return self.decision;
        }
        self.count();
        if let Some(name) = self.status.pending_task.clone() {
            return self.settle(&name);
        }
        if let Some(decision) = self.manual() {
            return decision;
        }
        self.let_go();
        self.scheduled()
    }

    /// Children as the status shows them.
    fn count(&mut self) {
        let phase = |task: &Task| task.status.as_ref().and_then(|status| status.phase);
        let active: Vec<&Arc<Task>> =
            self.present.children.iter().filter(|task| !phase(task).is_some_and(TaskPhase::is_final)).collect();
        self.status.active = i32::try_from(active.len()).unwrap_or(i32::MAX);
        self.status.active_refs = active.iter().map(|task| reference(task)).collect();
        let done =
            self.present.children.iter().filter(|task| phase(task) == Some(TaskPhase::Completed) && !was_stopped(task));
        let newest = done.filter_map(|task| task.status.as_ref()?.completion_time.clone()).max_by_key(|time| time.0);
        let known = self.status.last_successful_time.take();
        self.status.last_successful_time = newest.into_iter().chain(known).max_by_key(|time| time.0);
    }

    /// An instant was taken: its Task is created if it is not there, and recorded if it is.
    fn settle(mut self, name: &str) -> Decision {
        let uid = self.cron.uid().unwrap_or_default();
        match &self.present.pending {
            None => {
                // The intention to create it for a manual run is no longer needed once the status holds it.
                self.decision.annotate(self.cron, [(TRIGGERED_ANNOTATION, None)]);
                self.decision.create(&self.task(name));
            }
            Some(task) if belongs_to(&**task, &uid) => {
                self.status.pending_task = None;
                self.status.total_executions += 1;
                self.decision.annotate(self.cron, [(TRIGGERED_ANNOTATION, None)]);
                let message = format!("created Task {name}");
                self.decision.event(Event::normal(self.cron, "TaskCreated", "CreateTask", message));
                // The same write says what comes next; once it is done, the Task need not be kept.
                let mut decision = self.scheduled();
                decision.remove_finalizer(&**task, names::TRACKING_FINALIZER);
                return decision;
            }
            Some(_) => {
                // A Task of the same name that someone else made: the instant counts as done, and it is said.
                self.status.pending_task = None;
                let message = format!("Task {name} exists and belongs to someone else");
                self.conditions.set("Ready", true, "NameTaken", message.clone());
                self.decision.event(Event::warning(self.cron, "TaskCreationFailed", "CreateTask", message));
                self.write_status();
            }
        }
        self.decision
    }

    /// A run that a person asked for. It is accepted in the same write that removes the request.
    fn manual(&mut self) -> Option<Decision> {
        if let Some(name) = self.cron.annotations().get(TRIGGERED_ANNOTATION).cloned() {
            self.status.pending_task = Some(name);
            self.status.last_schedule_time = self.status.last_schedule_time.take().max(Some(Time(self.now)));
            self.write_status();
            return Some(std::mem::take(&mut self.decision));
        }
        let wanted = self.cron.annotations().get(names::TRIGGER_ANNOTATION).is_some_and(|value| value == "true");
        if !wanted {
            return None;
        }
        if self.is_full() {
            let message = self.full();
            self.decision.annotate(self.cron, [(names::TRIGGER_ANNOTATION, None)]);
            self.decision.event(Event::warning(self.cron, "MaxRetainedTasksReached", "Trigger", message));
            return Some(std::mem::take(&mut self.decision));
        }
        let taken = |name: &String| self.present.children.iter().any(|task| task.name_any() == *name);
        let mut second = self.now.as_second();
        let mut name = names::scheduled_task(&self.cron.name_any(), second);
        while taken(&name) {
            second += 1;
            name = names::scheduled_task(&self.cron.name_any(), second);
        }
        self.decision.annotate(self.cron, [(names::TRIGGER_ANNOTATION, None), (TRIGGERED_ANNOTATION, Some(name))]);
        self.decision.event(Event::normal(self.cron, "Triggered", "Trigger", "a manual run was accepted"));
        Some(std::mem::take(&mut self.decision))
    }

    /// Tasks that are recorded need no keeping.
    fn let_go(&mut self) {
        for task in self.present.children.iter().filter(|task| is_tracked(task)) {
            self.decision.remove_finalizer(&**task, names::TRACKING_FINALIZER);
        }
    }

    fn scheduled(mut self) -> Decision {
        let schedule = match Schedule::parse(&self.cron.spec.schedule, self.cron.spec.time_zone.as_deref()) {
            Ok(schedule) => schedule,
            Err(invalid) => {
                self.status.next_schedule_time = None;
                self.conditions.set("Ready", false, "InvalidSchedule", invalid.to_string());
                self.decision.outcome(Outcome::Permanent(invalid.to_string()));
                return self.finish();
            }
        };
        if self.cron.spec.suspend == Some(true) {
            self.status.next_schedule_time = None;
            self.conditions.set("Ready", false, "Suspended", "spec.suspend is true");
            return self.finish();
        }
        let next = schedule.next_after(self.now);
        self.status.next_schedule_time = next.map(Time);
        if let Some(next) = next {
            self.decision.look_again(next);
        }
        let settled = self.settled();
        match schedule.due(settled, self.now) {
            None => {
                let message =
                    next.map_or_else(|| "the schedule never comes again".into(), |next| format!("next at {next}"));
                self.conditions.set("Ready", true, "Scheduled", message);
                self.finish()
            }
            Some(due) => self.due(due),
        }
    }

    /// Up to when everything is settled. A ledger far in the future comes from a clock that was wrong; keeping it would
    /// mean no Task until then.
    fn settled(&mut self) -> Timestamp {
        let created = self.cron.creation_timestamp().map_or(self.now, |time| time.0);
        match &self.status.last_schedule_time {
            Some(ledger) if ledger.0.duration_since(self.now) > CLOCK_TOLERANCE => {
                let message =
                    format!("the clock went back from {} to {}; the schedule goes on from now", ledger.0, self.now);
                self.decision.event(Event::warning(self.cron, "ClockMovedBack", "Schedule", message));
                self.status.last_schedule_time = Some(Time(self.now));
                self.now
            }
            Some(ledger) => ledger.0,
            None => created,
        }
    }

    fn due(mut self, due: Due) -> Decision {
        if due.too_many() {
            let message = "more than 100 instants were missed; only the latest is run";
            self.decision.event(Event::warning(self.cron, "TooManyMissed", "Schedule", message));
        }
        let late = self.now.duration_since(due.instant);
        let deadline = self.cron.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        if deadline.is_some_and(|deadline| late > deadline) {
            let message = format!("{} was missed by more than startingDeadlineSeconds", due.instant);
            self.conditions.set("Ready", true, "MissedDeadline", message.clone());
            self.decision.event(Event::warning(self.cron, "MissedDeadline", "Schedule", message));
            self.status.last_schedule_time = Some(Time(due.instant));
            return self.finish();
        }
        if self.is_full() {
            let message = self.full();
            let news = engine::condition::find(&self.status.conditions, "Ready")
                .is_none_or(|known| known.reason != "MaxRetainedTasksReached");
            self.conditions.set("Ready", false, "MaxRetainedTasksReached", message.clone());
            if news {
                self.decision.event(Event::warning(self.cron, "MaxRetainedTasksReached", "Schedule", message.clone()));
            }
            self.decision.outcome(Outcome::Waiting(message));
            return self.finish();
        }
        if self.status.active > 0 {
            match self.cron.spec.concurrency_policy {
                ConcurrencyPolicy::Allow => {}
                ConcurrencyPolicy::Forbid => {
                    let message = "the Task before is still active; this run starts when it ends";
                    self.conditions.set("Ready", true, "ActiveTaskExists", message);
                    return self.finish();
                }
                ConcurrencyPolicy::Replace => self.stop_active(),
            }
        }
        let name = names::scheduled_task(&self.cron.name_any(), due.instant.as_second());
        self.status.last_schedule_time = Some(Time(due.instant));
        self.status.pending_task = Some(name.clone());
        self.conditions.set("Ready", true, "Scheduled", format!("creates Task {name}"));
        self.write_status();
        self.decision.create(&self.task(&name));
        self.decision
    }

    fn stop_active(&mut self) {
        let phase = |task: &Task| task.status.as_ref().and_then(|status| status.phase);
        for task in self.present.children.iter().filter(|task| !phase(task).is_some_and(TaskPhase::is_final)) {
            self.decision.annotate(&**task, [(names::STOP_ANNOTATION, Some("true".into()))]);
        }
        self.decision.event(Event::normal(
            self.cron,
            "ReplacedTasks",
            "Schedule",
            "stopped the Tasks that were active",
        ));
    }

    fn is_full(&self) -> bool {
        self.present.children.len() >= usize::try_from(self.cron.spec.max_retained_tasks).unwrap_or(usize::MAX)
    }

    fn full(&self) -> String {
        let most = self.cron.spec.max_retained_tasks;
        format!(
            "{most} Tasks exist, as many as spec.maxRetainedTasks allows: delete some, or set cleanup in KubeOpenCodeConfig"
        )
    }

    /// The Task of that name.
    fn task(&self, name: &str) -> Task {
        let template = self.cron.spec.task_template.metadata.clone().unwrap_or_default();
        let mut labels: BTreeMap<String, String> = template.labels.unwrap_or_default();
        labels.insert(names::CRON_TASK_LABEL.into(), self.cron.name_any());
        let mut metadata = owned(self.cron, name.to_owned(), labels);
        metadata.annotations = template.annotations;
        metadata.finalizers = Some(vec![names::TRACKING_FINALIZER.into()]);
        Task { metadata, spec: self.cron.spec.task_template.spec.clone(), status: None }
    }

    fn finish(mut self) -> Decision {
        self.write_status();
        self.decision
    }

    fn write_status(&mut self) {
        let conditions = std::mem::replace(&mut self.conditions, Conditions::new(&[], None, self.now));
        self.status.conditions = conditions.finish();
        self.status.observed_generation = self.cron.metadata.generation;
        self.decision.status(self.cron, self.cron.status.as_ref(), &self.status);
    }
}

fn was_stopped(task: &Task) -> bool {
    task.status.as_ref().is_some_and(|status| engine::condition::is_true(&status.conditions, "Stopped"))
}

fn reference(task: &Task) -> ObjectReference {
    ObjectReference {
        api_version: Some(names::API_VERSION.into()),
        kind: Some("Task".into()),
        namespace: task.namespace(),
        name: task.metadata.name.clone(),
        uid: task.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// What to say when the API server refused a step, e.g. a Task that it finds invalid.
pub(super) fn refused(observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
    let Observed::CronTask(present) = observed else { return Decision::none() };
    let cron = &*present.cron;
    let mut status = cron.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, cron.metadata.generation, now);
    conditions.set("Ready", false, "TaskCreationFailed", &failure.message);
    status.conditions = conditions.finish();
    let mut decision = Decision::none();
    decision.status(cron, cron.status.as_ref(), &status);
    decision.event(Event::warning(cron, "TaskCreationFailed", "CreateTask", &failure.message));
    decision
}
