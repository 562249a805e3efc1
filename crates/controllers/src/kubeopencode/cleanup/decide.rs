//! Which finished Tasks go. Pure.

use api::kubeopencode::Cleanup;
use jiff::{SignedDuration, Timestamp};

/// A Task that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its name.
    pub name: String,
    /// When it ended.
    pub completed: Timestamp,
}

/// What is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Names of the Tasks to delete, oldest first.
    pub delete: Vec<String>,
    /// When the next one's time is up.
    pub look_again: Option<Timestamp>,
}

/// Decides about the finished Tasks of one namespace.
pub fn expired(cleanup: &Cleanup, mut tasks: Vec<Finished>, now: Timestamp) -> Keep {
    tasks.sort_by(|a, b| (a.completed, &a.name).cmp(&(b.completed, &b.name)));
    let mut keep = Keep::default();
    if let Some(seconds) = cleanup.ttl_seconds_after_finished {
        let life = SignedDuration::from_secs(seconds.into());
        let end = |task: &Finished| task.completed.checked_add(life).unwrap_or(Timestamp::MAX);
        let (over, alive): (Vec<Finished>, Vec<Finished>) = tasks.into_iter().partition(|task| end(task) <= now);
        keep.delete.extend(over.into_iter().map(|task| task.name));
        keep.look_again = alive.iter().map(end).min();
        tasks = alive;
    }
    if let Some(most) = cleanup.max_retained_tasks {
        let surplus = tasks.len().saturating_sub(usize::try_from(most).unwrap_or(0));
        keep.delete.extend(tasks.into_iter().take(surplus).map(|task| task.name));
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn tasks(ends: &[(&str, i64)]) -> Vec<Finished> {
        ends.iter().map(|(name, end)| Finished { name: (*name).into(), completed: at(*end) }).collect()
    }

    fn cleanup(ttl: Option<i32>, most: Option<i32>) -> Cleanup {
        Cleanup { ttl_seconds_after_finished: ttl, max_retained_tasks: most }
    }

    #[test]
    fn the_time_to_live_counts_from_the_end() {
        let kept = expired(&cleanup(Some(60), None), tasks(&[("b", 50), ("a", 0)]), at(60));
        assert_eq!(kept, Keep { delete: vec!["a".into()], look_again: Some(at(110)) });
    }

    #[test]
    fn the_oldest_go_first() {
        let kept = expired(&cleanup(None, Some(2)), tasks(&[("d", 4), ("b", 2), ("c", 2), ("a", 1)]), at(10));
        assert_eq!(kept.delete, ["a", "b"]);
        assert_eq!(expired(&cleanup(None, Some(0)), tasks(&[("a", 1)]), at(10)).delete, ["a"]);
    }

    #[test]
    fn both_together_time_first() {
        let kept = expired(&cleanup(Some(5), Some(1)), tasks(&[("a", 1), ("b", 7), ("c", 8)]), at(10));
        assert_eq!(kept.delete, ["a", "b"]);
    }

    #[test]
    fn nothing_said_nothing_deleted() {
        assert_eq!(expired(&cleanup(None, None), tasks(&[("a", 1)]), at(1000)), Keep::default());
    }
}
