//! What a Deployment says of its rollout, in the words that `kubectl rollout status` reads.

use std::time::Duration;

use engine::Decision;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::plan::Plan;

/// What this look did, beside sizes.
#[derive(Default)]
pub struct Progress {
    /// The ReplicaSet that was just made.
    pub created: Option<String>,
    /// The Deployment is paused.
    pub paused: bool,
}

/// Writes counts and conditions, and looks again when the progress deadline is due.
pub fn write(decision: &mut Decision, plan: &Plan<'_>, progress: &Progress, now: Timestamp) {
    let before = plan.deployment.status.clone().unwrap_or_default();
    let mut status = count(plan);
    let mut conditions = Conditions { list: before.conditions.clone().unwrap_or_default(), now };
    let available = status.available_replicas.unwrap_or(0) >= plan.replicas - plan.max_unavailable;
    if available {
        conditions.set("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.");
    } else {
        let message = "Deployment does not have minimum availability.";
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message);
    }
    match deadline(plan.deployment) {
        None => conditions.remove("Progressing"),
        Some(_) if pausing(&mut conditions, plan.deployment, progress) => {}
        Some(deadline) => progressing(&mut conditions, plan, &before, &status, progress, deadline),
    }
    failing(&mut conditions, plan);
    if let Some(deadline) = deadline(plan.deployment)
        && let Some(due) = due(&conditions, &status, deadline).filter(|_| !progress.paused)
    {
        decision.look_again(due);
    }
    status.conditions = Some(conditions.list).filter(|list| !list.is_empty());
    decision.status(plan.deployment, plan.deployment.status.as_ref(), &status);
}

/// Whether the rollout has arrived, by the Deployment's own last account.
pub fn is_complete(plan: &Plan<'_>) -> bool {
    complete(plan, &count(plan))
}

/// Notes that two templates have the same hash.
pub fn count_collision(decision: &mut Decision, deployment: &Deployment, collisions: i32) {
    let before = deployment.status.clone().unwrap_or_default();
    let status = DeploymentStatus { collision_count: Some(collisions), ..before };
    decision.status(deployment, deployment.status.as_ref(), &status);
}

/// Notes that the new ReplicaSet was refused.
pub fn refused(decision: &mut Decision, deployment: &Deployment, message: &str, now: Timestamp) {
    let mut status = deployment.status.clone().unwrap_or_default();
    let mut conditions = Conditions { list: status.conditions.take().unwrap_or_default(), now };
    conditions.set("Progressing", "False", "ReplicaSetCreateError", message);
    status.conditions = Some(conditions.list);
    status.observed_generation = deployment.metadata.generation;
    decision.status(deployment, deployment.status.as_ref(), &status);
}

fn count(plan: &Plan<'_>) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSetStatus) -> i32| -> i32 {
        plan.all().filter_map(|member| member.set.status.as_ref()).map(of).sum()
    };
    let available = sum(|status| status.available_replicas.unwrap_or(0));
    let updated = plan.new.as_ref().and_then(|new| new.set.status.as_ref()).map_or(0, |status| status.replicas);
    // Known only once every ReplicaSet knows its own.
    let ending = |status: &ReplicaSetStatus| status.terminating_replicas;
    let terminating = plan.all().map(|member| member.set.status.as_ref().and_then(ending)).sum();
    let wanted = plan.all().map(|member| member.before).sum::<i32>();
    DeploymentStatus {
        observed_generation: plan.deployment.metadata.generation,
        replicas: some(sum(|status| status.replicas)),
        updated_replicas: some(updated),
        ready_replicas: some(sum(|status| status.ready_replicas.unwrap_or(0))),
        available_replicas: some(available),
        unavailable_replicas: some((wanted - available).max(0)),
        terminating_replicas: terminating,
        collision_count: plan.deployment.status.as_ref().and_then(|status| status.collision_count),
        conditions: None,
    }
}

fn some(number: i32) -> Option<i32> {
    (number > 0).then_some(number)
}

fn complete(plan: &Plan<'_>, status: &DeploymentStatus) -> bool {
    let all = |count: Option<i32>| count.unwrap_or(0) == plan.replicas;
    all(status.updated_replicas) && all(status.replicas) && all(status.available_replicas)
}

fn has_moved(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let number = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(after.updated_replicas) > number(before.updated_replicas)
        || old(after) < old(before)
        || number(after.ready_replicas) > number(before.ready_replicas)
        || number(after.available_replicas) > number(before.available_replicas)
}

fn deadline(deployment: &Deployment) -> Option<Duration> {
    let seconds = deployment.spec.as_ref().and_then(|spec| spec.progress_deadline_seconds).unwrap_or(600);
    // The largest number means that there is none.
    (seconds != i32::MAX).then(|| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// A pause stops the clock of the deadline; resuming starts it anew.
fn pausing(conditions: &mut Conditions, deployment: &Deployment, progress: &Progress) -> bool {
    let reason = conditions.get("Progressing").and_then(|condition| condition.reason.clone());
    let was_paused = reason.as_deref() == Some("DeploymentPaused");
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    if reason.as_deref() == Some("ProgressDeadlineExceeded") && paused {
        return true;
    }
    if paused && !was_paused {
        conditions.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused");
    } else if !paused && was_paused && progress.created.is_none() {
        conditions.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed");
    }
    paused
}

fn progressing(
    conditions: &mut Conditions,
    plan: &Plan<'_>,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    progress: &Progress,
    deadline: Duration,
) {
    let new = progress.created.clone().or_else(|| plan.new.as_ref().map(|new| new.set.name_any()));
    let subject = match &new {
        Some(name) => format!("ReplicaSet \"{name}\""),
        None => format!("Deployment \"{}\"", plan.deployment.name_any()),
    };
    if let Some(name) = &progress.created {
        let message = format!("Created new replica set \"{name}\"");
        conditions.set("Progressing", "True", "NewReplicaSetCreated", &message);
    } else if conditions.get("Progressing").is_none()
        && let Some(name) = &new
    {
        let message = format!("Found new replica set \"{name}\"");
        conditions.set("Progressing", "True", "FoundNewReplicaSet", &message);
    }
    let current = conditions.get("Progressing").cloned();
    let arrived = current.as_ref().and_then(|condition| condition.reason.as_deref()) == Some("NewReplicaSetAvailable");
    // Once it has arrived, only a new template starts it again; a Pod that fails later does not.
    if arrived && status.replicas == status.updated_replicas {
        return;
    }
    if complete(plan, status) {
        let message = format!("{subject} has successfully progressed.");
        conditions.set("Progressing", "True", "NewReplicaSetAvailable", &message);
    } else if has_moved(before, status) {
        conditions.renew("Progressing", "True", "ReplicaSetUpdated", &format!("{subject} is progressing."));
    } else if timed_out(current.as_ref(), deadline, conditions.now) {
        let message = format!("{subject} has timed out progressing.");
        conditions.set("Progressing", "False", "ProgressDeadlineExceeded", &message);
    }
}

fn timed_out(current: Option<&DeploymentCondition>, deadline: Duration, now: Timestamp) -> bool {
    let Some(current) = current else { return false };
    match current.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => current.last_update_time.as_ref().is_some_and(|since| since.0 + deadline < now),
    }
}

/// When the deadline will have passed, if nothing moves until then.
fn due(conditions: &Conditions, status: &DeploymentStatus, deadline: Duration) -> Option<Timestamp> {
    let current = conditions.get("Progressing")?;
    match current.reason.as_deref() {
        Some("ProgressDeadlineExceeded") => return None,
        Some("NewReplicaSetAvailable") if status.replicas == status.updated_replicas => return None,
        _ => {}
    }
    // Times are kept in whole seconds, and it must have passed, not just been reached.
    current.last_update_time.as_ref().map(|since| since.0 + deadline + Duration::from_secs(1))
}

/// Shows why a ReplicaSet cannot make its Pods.
fn failing(conditions: &mut Conditions, plan: &Plan<'_>) {
    let failure = plan.all().find_map(|member| {
        let listed = member.set.status.as_ref()?.conditions.as_ref()?;
        listed.iter().find(|condition| condition.type_ == "ReplicaFailure")
    });
    match failure {
        Some(failure) => {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            conditions.set("ReplicaFailure", &failure.status, &text(&failure.reason), &text(&failure.message));
        }
        None => conditions.remove("ReplicaFailure"),
    }
}

/// Deployment conditions have a time of their own for updates, and rules of their own for keeping them.
struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn get(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    fn remove(&mut self, type_: &str) {
        self.list.retain(|condition| condition.type_ != type_);
    }

    /// Sets a condition; one with the same status and reason is left as it is, times and message included.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let same =
            |condition: &DeploymentCondition| condition.status == status && condition.reason.as_deref() == Some(reason);
        if !self.get(type_).is_some_and(same) {
            self.renew(type_, status, reason, message);
        }
    }

    /// Sets a condition and its update time.
    fn renew(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let before = self.get(type_).filter(|condition| condition.status == status);
        let since = before.and_then(|condition| condition.last_transition_time.clone());
        let condition = DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: since.or(Some(Time(self.now))),
            last_update_time: Some(Time(self.now)),
        };
        self.remove(type_);
        self.list.push(condition);
    }
}
