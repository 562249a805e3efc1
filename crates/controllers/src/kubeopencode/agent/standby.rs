//! Whether nobody needs an Agent. Pure.

use api::duration::Duration;
use jiff::{SignedDuration, Timestamp};

/// A person who was connected this recently still is.
const CONNECTED: SignedDuration = SignedDuration::from_secs(120);

/// How an Agent with standby is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Someone needs it.
    No,
    /// Nobody needs it since then, and it is not long enough.
    Since(Timestamp, Timestamp),
    /// Nobody has needed it since then for so long that it sleeps.
    Asleep(Timestamp),
}

/// Decides from the number of Tasks that have not ended, the last sign of a person, and since when it was idle before.
pub fn idle(
    timeout: &Duration,
    unfinished: usize,
    last_connection: Option<Timestamp>,
    known_since: Option<Timestamp>,
    now: Timestamp,
) -> Idle {
    let Ok(timeout) = timeout.parse() else { return Idle::No };
    if unfinished > 0 {
        return Idle::No;
    }
    if last_connection
        .is_some_and(|last| now.duration_since(last) < CONNECTED.min(timeout.max(SignedDuration::from_secs(1))))
    {
        return Idle::No;
    }
    let since = known_since.unwrap_or(now).max(last_connection.unwrap_or(Timestamp::MIN));
    let until = since.checked_add(timeout).unwrap_or(Timestamp::MAX);
    if now >= until { Idle::Asleep(since) } else { Idle::Since(since, until) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn look(unfinished: usize, connected: Option<i64>, since: Option<i64>, now: i64) -> Idle {
        idle(&Duration("10m".into()), unfinished, connected.map(at), since.map(at), at(now))
    }

    #[test]
    fn an_idle_agent_falls_asleep_after_its_time() {
        assert_eq!(look(0, None, None, 1000), Idle::Since(at(1000), at(1600)));
        assert_eq!(look(0, None, Some(1000), 1599), Idle::Since(at(1000), at(1600)));
        assert_eq!(look(0, None, Some(1000), 1600), Idle::Asleep(at(1000)));
    }

    #[test]
    fn a_task_or_a_person_keeps_it_awake() {
        assert_eq!(look(1, None, Some(1000), 9999), Idle::No);
        assert_eq!(look(0, Some(1590), Some(1000), 1600), Idle::No);
        assert_eq!(look(0, Some(1400), Some(1000), 1600), Idle::Since(at(1400), at(2000)));
    }
}
