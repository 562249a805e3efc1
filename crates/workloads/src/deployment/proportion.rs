//! Scaling in the middle of a rollout (or while it is paused): every ReplicaSet by its share.

use kube::ResourceExt;

use super::plan::{Member, Plan};
use super::revision::{DESIRED, MAXIMUM, number};

/// Whether the Deployment was resized since its ReplicaSets were.
pub fn is_needed(plan: &Plan<'_>) -> bool {
    let active = plan.all().filter(|member| member.replicas > 0);
    active.into_iter().any(|member| number(&member.set, DESIRED).is_some_and(|desired| desired != plan.replicas))
}

/// Resizes all ReplicaSets.
pub fn scale(plan: &mut Plan<'_>) {
    let wanted = plan.replicas;
    if let Some(only) = only_active(plan) {
        only.replicas = wanted;
        return;
    }
    if plan.new.as_ref().is_some_and(|new| is_saturated(new, wanted)) {
        plan.old.iter_mut().for_each(|member| member.replicas = 0);
        return;
    }
    if !plan.recreates() {
        share_out(plan);
    }
}

/// The one ReplicaSet with Pods; the new (or youngest) one when none has any.
fn only_active<'p>(plan: &'p mut Plan<'_>) -> Option<&'p mut Member> {
    let active = plan.all().filter(|member| member.replicas > 0).count();
    match active {
        0 if plan.new.is_some() => plan.new.as_mut(),
        0 => plan.old.last_mut(),
        1 => plan.new.iter_mut().chain(&mut plan.old).find(|member| member.replicas > 0),
        _ => None,
    }
}

fn is_saturated(new: &Member, wanted: i32) -> bool {
    new.replicas == wanted && number(&new.set, DESIRED) == Some(wanted) && new.available() == wanted
}

fn share_out(plan: &mut Plan<'_>) {
    let allowed = if plan.replicas > 0 { plan.max_total() } else { 0 };
    let to_add = allowed - plan.total();
    let whole = allowed;
    let actual = plan.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
    let mut members: Vec<&mut Member> =
        plan.new.iter_mut().chain(&mut plan.old).filter(|member| member.replicas > 0).collect();
    // The largest first; among equals the youngest gains first and the oldest loses first.
    members.sort_by_key(|member| (-member.replicas, member.set.creation_timestamp().map(|time| time.0)));
    if to_add > 0 {
        members.sort_by(|one, other| {
            let age = |member: &Member| member.set.creation_timestamp().map(|time| time.0);
            other.replicas.cmp(&one.replicas).then(age(other).cmp(&age(one)))
        });
    }
    let mut added = 0;
    for member in &mut members {
        if to_add != 0 {
            let before = number(&member.set, MAXIMUM).unwrap_or(actual).max(1);
            let share = rounded(member.replicas, whole, before) - member.replicas;
            let left = to_add - added;
            let share = if to_add > 0 { share.clamp(0, left) } else { share.clamp(left, 0) };
            member.replicas += share;
            added += share;
        }
    }
    if let Some(largest) = members.first_mut() {
        largest.replicas = (largest.replicas + to_add - added).max(0);
    }
}

fn rounded(part: i32, whole: i32, of: i32) -> i32 {
    let (part, whole, of) = (i64::from(part), i64::from(whole), i64::from(of));
    i32::try_from((2 * part * whole + of).div_euclid(2 * of)).unwrap_or(i32::MAX)
}
