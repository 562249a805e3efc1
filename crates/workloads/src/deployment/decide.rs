//! The decision about one Deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Decision, Event};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::plan::{Member, Plan};
use super::{proportion, revision, rolling, status, template};

pub fn decide(
    decision: &mut Decision,
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    running: &[String],
    now: Timestamp,
) {
    let mut plan = Plan::new(deployment, sets);
    let mut progress = status::Progress::default();
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    let resized = proportion::is_needed(&plan);
    if deployment.metadata.deletion_timestamp.is_some() {
        status::write(decision, &plan, &progress, now);
        return;
    }
    if paused || resized {
        proportion::scale(&mut plan);
        progress.paused = paused;
    } else if plan.new.is_none() && !(plan.recreates() && old_pods_run(&plan, running)) {
        if !create(decision, &plan, sets, &mut progress) {
            return;
        }
    } else if plan.recreates() {
        let runs = old_pods_run(&plan, running);
        rolling::recreate(&mut plan, runs);
    } else {
        rolling::roll(&mut plan);
    }
    let moving = plan.all().any(|member| member.replicas != member.before);
    renew(decision, &plan);
    for member in plan.all() {
        resize(decision, &plan, member);
    }
    status::write(decision, &plan, &progress, now);
    if !moving && progress.created.is_none() {
        clean_up(decision, &plan);
    }
}

/// Whether Pods of old ReplicaSets still run; the new one must not start beside them.
fn old_pods_run(plan: &Plan<'_>, running: &[String]) -> bool {
    let old = |uid: &String| plan.old.iter().any(|member| member.set.uid().as_ref() == Some(uid));
    plan.old.iter().any(|member| member.replicas > 0) || running.iter().any(old)
}

/// Makes the ReplicaSet for the present template; `false` when its name is taken by another template.
fn create(decision: &mut Decision, plan: &Plan<'_>, sets: &[Arc<ReplicaSet>], progress: &mut status::Progress) -> bool {
    let deployment = plan.deployment;
    let Some(spec) = &deployment.spec else { return false };
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = template::hash(&spec.template, collisions);
    let name = template::name(deployment, &hash);
    if sets.iter().any(|set| set.name_any() == name) {
        // Another template has the same hash: the next count gives another one.
        status::count_collision(decision, deployment, collisions + 1);
        return false;
    }
    let mut annotations = revision::annotations(plan, None);
    annotations.extend(revision::sizes(plan).map(|(name, value)| (name.to_owned(), value)));
    let size = rolling::new_size(plan, 0);
    let mut set = template::build(deployment, &hash, annotations);
    if let Some(spec) = &mut set.spec {
        spec.replicas = Some(size);
    }
    decision.create(&set);
    if size > 0 {
        let words = format!("Scaled up replica set {name} from 0 to {size}");
        decision.event(Event::normal(deployment, "ScalingReplicaSet", "ScalingReplicaSet", words));
    }
    set_revision(decision, deployment, revision::next(plan));
    progress.created = Some(name);
    true
}

/// Gives the new ReplicaSet its revision and the Deployment's annotations; a rollback ends here.
fn renew(decision: &mut Decision, plan: &Plan<'_>) {
    let Some(new) = &plan.new else { return };
    let wanted = revision::annotations(plan, Some(&new.set));
    let changed: BTreeMap<&String, &String> =
        wanted.iter().filter(|(name, value)| new.set.annotations().get(*name) != Some(value)).collect();
    let minimum = plan.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
    let waits = new.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
    if !changed.is_empty() || minimum.unwrap_or(0) != waits.unwrap_or(0) {
        let body = json!({ "metadata": { "annotations": changed }, "spec": { "minReadySeconds": minimum } });
        decision.patch(&*new.set, body);
    }
    set_revision(decision, plan.deployment, revision::of(&new.set).max(revision::next(plan)));
}

fn set_revision(decision: &mut Decision, deployment: &Deployment, number: i64) {
    decision.annotate(deployment, [(revision::REVISION, Some(number.to_string()))]);
}

/// Writes a ReplicaSet's new size, and the sizes it was computed from.
fn resize(decision: &mut Decision, plan: &Plan<'_>, member: &Member) {
    let sizes = revision::sizes(plan);
    let annotations: Map<String, Value> = sizes
        .into_iter()
        .filter(|(name, value)| member.set.annotations().get(*name) != Some(value))
        .map(|(name, value)| (name.to_owned(), Value::String(value)))
        .collect();
    let resized = member.replicas != member.before;
    if !resized && (annotations.is_empty() || member.replicas == 0) {
        return;
    }
    let mut body = json!({ "metadata": { "annotations": annotations } });
    if resized {
        body["spec"] = json!({ "replicas": member.replicas });
        let direction = if member.replicas > member.before { "up" } else { "down" };
        let (name, before, after) = (member.set.name_any(), member.before, member.replicas);
        let words = format!("Scaled {direction} replica set {name} from {before} to {after}");
        decision.event(Event::normal(plan.deployment, "ScalingReplicaSet", "ScalingReplicaSet", words));
    }
    decision.patch(&*member.set, body);
}

/// Deletes the oldest ReplicaSets beyond the history limit, once the rollout is complete.
fn clean_up(decision: &mut Decision, plan: &Plan<'_>) {
    let limit = plan.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or_default();
    if !status::is_complete(plan) {
        return;
    }
    let idle = |member: &&Member| {
        let left = member.set.status.as_ref().map_or(0, |status| status.replicas);
        let seen = member.set.status.as_ref().and_then(|status| status.observed_generation);
        member.replicas == 0
            && left == 0
            && seen >= member.set.metadata.generation
            && member.set.metadata.deletion_timestamp.is_none()
    };
    let mut old: Vec<&Member> = plan.old.iter().filter(idle).collect();
    old.sort_by_key(|member| revision::of(&member.set));
    let excess = plan.old.len().saturating_sub(limit);
    for member in old.into_iter().take(excess) {
        decision.delete(&*member.set);
    }
}
