//! Who may start. Pure.

use std::collections::BTreeSet;

use api::kubeopencode::{ActiveTask, TaskStart};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod::Limits;

/// Where a Task stands, as far as the queue is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Wants to start.
    Waiting,
    /// Has started.
    Started,
    /// Has ended, or must not start any more.
    Over,
}

/// A Task of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid. On the embedded plane uids grow with time, which settles who of the same second was first.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// Where it stands.
    pub stand: Stand,
    /// We made it ourselves, and the watch has not told of it yet: an older one may be on its way.
    pub early: bool,
}

/// How soon the watch is expected to tell what we made ourselves.
const ECHO: SignedDuration = SignedDuration::from_millis(10);

/// The queue as it was observed.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The limits; with none there is no queue.
    pub limits: Limits,
    /// Whether the host can take Tasks at all.
    pub open: bool,
    /// Tasks of this host, in any order.
    pub tasks: Vec<Candidate>,
    /// Uids of admitted Tasks that do not exist any more; asked of the API server itself, never of a cache.
    pub gone: BTreeSet<String>,
    /// Tasks that hold a slot.
    pub active: Vec<ActiveTask>,
    /// Starts that may count against the quota.
    pub history: Vec<TaskStart>,
}

/// The lists as they should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// Tasks that hold a slot.
    pub active: Vec<ActiveTask>,
    /// Starts within the window.
    pub history: Vec<TaskStart>,
    /// When the quota lets the next one in, or when it is known who the next one is.
    pub look_again: Option<Timestamp>,
}

/// Frees the slots of Tasks that are over, forgets starts outside of the window, and admits who is next.
pub fn admit(line: &Line, now: Timestamp) -> Admission {
    let window = line.limits.quota.as_ref().map(|quota| SignedDuration::from_secs(quota.window_seconds.into()));
    let mut history: Vec<TaskStart> = match window {
        Some(window) => {
            line.history.iter().filter(|start| now.duration_since(start.start_time.0) < window).cloned().collect()
        }
        None => Vec::new(),
    };
    if line.limits.are_none() {
        return Admission { active: Vec::new(), history, look_again: None };
    }
    let stands = |uid: &str| line.tasks.iter().find(|task| task.uid == uid).map(|task| task.stand);
    let mut active: Vec<ActiveTask> = line
        .active
        .iter()
        .filter(|task| stands(&task.uid) != Some(Stand::Over) && !line.gone.contains(&task.uid))
        .cloned()
        .collect();
    let mut order: Vec<&Candidate> = line.tasks.iter().filter(|task| task.stand != Stand::Over).collect();
    order.sort_by(|a, b| (a.created, &a.uid).cmp(&(b.created, &b.uid)));
    order.retain(|task| !active.iter().any(|active| active.uid == task.uid));
    // Those that started before there were limits hold a slot too.
    let (started, waiting): (Vec<&Candidate>, Vec<&Candidate>) =
        order.into_iter().partition(|task| task.stand == Stand::Started);
    active.extend(started.into_iter().map(slot));
    let mut look_again = None;
    for task in waiting.into_iter().filter(|_| line.open) {
        if line.limits.concurrent.is_some_and(|most| active.len() >= most) {
            break;
        }
        if let (Some(quota), Some(window)) = (&line.limits.quota, window)
            && history.len() >= usize::try_from(quota.max_task_starts).unwrap_or(0)
        {
            look_again =
                history.iter().map(|start| start.start_time.0).min().and_then(|oldest| oldest.checked_add(window).ok());
            break;
        }
        if task.early {
            look_again = now.checked_add(ECHO).ok();
            break;
        }
        active.push(slot(task));
        if window.is_some() && !history.iter().any(|start| start.task_uid.as_ref() == Some(&task.uid)) {
            history.push(TaskStart {
                task_name: task.name.clone(),
                task_namespace: task.namespace.clone(),
                task_uid: Some(task.uid.clone()),
                start_time: Time(now),
            });
        }
    }
    Admission { active, history, look_again }
}

fn slot(task: &Candidate) -> ActiveTask {
    ActiveTask { name: task.name.clone(), uid: task.uid.clone() }
}

#[cfg(test)]
mod tests {
    use api::kubeopencode::Quota;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn task(number: i64, stand: Stand) -> Candidate {
        let name = format!("t{number}");
        Candidate { uid: format!("u{number}"), name, namespace: "ns".into(), created: at(number), stand, early: false }
    }

    fn names(admission: &Admission) -> Vec<&str> {
        admission.active.iter().map(|task| task.name.as_str()).collect()
    }

    fn line(concurrent: Option<usize>, quota: Option<i32>, tasks: Vec<Candidate>) -> Line {
        let quota = quota.map(|max_task_starts| Quota { max_task_starts, window_seconds: 60 });
        Line { limits: Limits { concurrent, quota }, open: true, tasks, ..Line::default() }
    }

    /// Applies an admission to what the next look will see.
    fn settle(line: &mut Line, admission: &Admission) {
        line.active.clone_from(&admission.active);
        line.history.clone_from(&admission.history);
    }

    #[test]
    fn first_come_first_served() {
        let mut line = line(Some(2), None, (1..=4).rev().map(|n| task(n, Stand::Waiting)).collect());
        let admission = admit(&line, at(10));
        assert_eq!(names(&admission), ["t1", "t2"]);
        settle(&mut line, &admission);
        line.tasks.iter_mut().find(|task| task.name == "t1").expect("t1").stand = Stand::Over;
        assert_eq!(names(&admit(&line, at(11))), ["t2", "t3"]);
    }

    #[test]
    fn one_that_only_we_know_of_lets_older_ones_come_first() {
        let mut line = line(Some(2), None, (1..=3).map(|n| task(n, Stand::Waiting)).collect());
        line.tasks[1].early = true;
        let admission = admit(&line, at(10));
        assert_eq!(names(&admission), ["t1"]);
        assert_eq!(admission.look_again, Some(at(10) + ECHO));
        line.tasks[1].early = false;
        assert_eq!(names(&admit(&line, at(10))), ["t1", "t2"]);
    }

    #[test]
    fn looking_twice_admits_once() {
        let mut line = line(Some(1), Some(5), vec![task(1, Stand::Waiting), task(2, Stand::Waiting)]);
        let admission = admit(&line, at(10));
        settle(&mut line, &admission);
        assert_eq!(admit(&line, at(10)), admission);
        assert_eq!(admission.history.len(), 1);
    }

    #[test]
    fn the_quota_counts_starts_in_a_sliding_window() {
        let mut line = line(None, Some(2), (1..=3).map(|n| task(n, Stand::Waiting)).collect());
        let admission = admit(&line, at(100));
        assert_eq!(names(&admission), ["t1", "t2"]);
        assert_eq!(admission.look_again, Some(at(160)));
        settle(&mut line, &admission);
        for task in &mut line.tasks {
            task.stand = if task.name == "t3" { Stand::Waiting } else { Stand::Over };
        }
        assert_eq!(names(&admit(&line, at(159))), Vec::<&str>::new());
        let later = admit(&line, at(160));
        assert_eq!(names(&later), ["t3"]);
        assert_eq!(later.history.len(), 1, "starts outside of the window are forgotten");
    }

    #[test]
    fn a_missing_task_keeps_its_slot_until_it_is_known_to_be_gone() {
        let mut line = line(Some(1), None, vec![task(2, Stand::Waiting)]);
        line.active = vec![ActiveTask { name: "t1".into(), uid: "u1".into() }];
        assert_eq!(names(&admit(&line, at(10))), ["t1"]);
        line.gone.insert("u1".into());
        assert_eq!(names(&admit(&line, at(10))), ["t2"]);
    }

    #[test]
    fn a_closed_host_admits_nobody_and_no_limits_keep_no_lists() {
        let mut closed = line(Some(1), None, vec![task(1, Stand::Waiting)]);
        closed.open = false;
        assert_eq!(names(&admit(&closed, at(1))), Vec::<&str>::new());
        let free = line(None, None, vec![task(1, Stand::Waiting)]);
        assert_eq!(names(&admit(&free, at(1))), Vec::<&str>::new());
    }

    #[test]
    fn tasks_that_run_already_count_when_a_limit_is_added() {
        let line = line(Some(1), None, vec![task(1, Stand::Waiting), task(2, Stand::Started)]);
        assert_eq!(names(&admit(&line, at(5))), ["t2"]);
    }
}
