//! The moves of a rollout: grow the new ReplicaSet within the surge, shrink the old ones while enough is available.

use super::plan::{Member, Plan};

/// The size a new ReplicaSet may have now.
pub fn new_size(plan: &Plan<'_>, present: i32) -> i32 {
    if plan.recreates() {
        return plan.replicas;
    }
    let others: i32 = plan.old.iter().map(|member| member.replicas).sum();
    let room = plan.max_total() - others - present;
    if room <= 0 { present } else { present + room.min(plan.replicas - present) }
}

/// One move of a rolling update: the new ReplicaSet first, the old ones when it needs nothing.
pub fn roll(plan: &mut Plan<'_>) {
    let Some(new) = &plan.new else { return };
    let size = if new.replicas > plan.replicas { plan.replicas } else { new_size(plan, new.replicas) };
    if size != new.replicas {
        plan.new.as_mut().expect("checked above").replicas = size;
        return;
    }
    shrink_old(plan);
}

/// One move of a recreation: everything old ends before anything new starts.
pub fn recreate(plan: &mut Plan<'_>, old_pods_run: bool) {
    if plan.old.iter().any(|member| member.replicas > 0) {
        plan.old.iter_mut().for_each(|member| member.replicas = 0);
    } else if !old_pods_run && let Some(new) = &mut plan.new {
        new.replicas = plan.replicas;
    }
}

fn shrink_old(plan: &mut Plan<'_>) {
    let Some(new) = &plan.new else { return };
    let least = plan.replicas - plan.max_unavailable;
    let not_yet = new.replicas - new.available();
    // What is not available yet must not be counted on, or two steps together would go too far.
    let spare = plan.total() - least - not_yet;
    if spare <= 0 {
        return;
    }
    shrink_unhealthy(&mut plan.old, spare);
    let available: i32 = plan.all().map(Member::available).sum();
    let mut surplus = available - least;
    for member in &mut plan.old {
        if surplus <= 0 {
            return;
        }
        let cut = member.replicas.min(surplus);
        member.replicas -= cut;
        surplus -= cut;
    }
}

/// Old Pods that serve nobody go first, whatever else.
fn shrink_unhealthy(old: &mut [Member], mut spare: i32) {
    for member in old {
        let unhealthy = (member.replicas - member.available()).max(0);
        let cut = unhealthy.min(spare);
        member.replicas -= cut;
        spare -= cut;
    }
}
