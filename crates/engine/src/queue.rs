//! Which keys want attention. A key waits at most once, is never handed out twice at a time, and what happens to it
//! while it is being worked on is remembered.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::key::Key;

/// The first wait after a transient failure.
pub const RETRY_FIRST: Duration = Duration::from_secs(5);
/// The longest wait after transient failures.
pub const RETRY_LAST: Duration = Duration::from_mins(5);
/// The longest wait for a dependency whose change goes unseen.
pub const WAITING: Duration = Duration::from_secs(30);

/// Nobody gives way to a punctual queue that is late by more than this.
const HOPELESS: SignedDuration = SignedDuration::from_secs(10);

/// How long to wait after so many transient failures in a row.
pub fn retry_delay(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_LAST)
}

/// A queue of keys, shared by the workers of one controller.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
    on_time: Notify,
}

#[derive(Debug, Default)]
struct State {
    punctual: bool,
    /// Keys of a punctual queue whose time has come, and when it came.
    late: VecDeque<(Timestamp, Key)>,
    ready: VecDeque<Key>,
    queued: HashSet<Key>,
    running: HashSet<Key>,
    again: HashSet<Key>,
    timers: BTreeSet<(Timestamp, Key)>,
    due: BTreeMap<Key, Timestamp>,
    failures: HashMap<Key, u32>,
    stale: HashMap<Key, u32>,
}

impl Queue {
    /// A queue in which keys whose time has come go before those that something happened to.
    pub(crate) fn punctual() -> Self {
        let queue = Self::default();
        queue.state.lock().punctual = true;
        queue
    }

    /// Wants `key` looked at now.
    pub fn add(&self, key: Key) {
        let mut state = self.state.lock();
        if state.running.contains(&key) {
            state.again.insert(key);
        } else if state.queued.insert(key.clone()) {
            state.ready.push_back(key);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Wants `key` looked at no later than `at`.
    pub fn add_at(&self, key: Key, at: Timestamp) {
        let mut state = self.state.lock();
        if let Some(earlier) = state.due.get(&key).copied() {
            if earlier <= at {
                return;
            }
            state.timers.remove(&(earlier, key.clone()));
        }
        state.due.insert(key.clone(), at);
        state.timers.insert((at, key));
        drop(state);
        self.changed.notify_one();
    }

    /// Hands out the next key; it must be given back with [`Queue::finish`].
    pub fn take(&self, now: Timestamp) -> Option<Key> {
        let mut state = self.state.lock();
        state.wake(now);
        let late = state.late.pop_front().map(|(_, key)| key);
        if late.is_some() && state.late.is_empty() {
            self.on_time.notify_waiters();
        }
        let key = late.or_else(|| state.ready.pop_front())?;
        state.queued.remove(&key);
        state.take_out(&key);
        if state.depth() > 0 {
            // One notification may have stood for several keys: pass it on to another worker.
            self.changed.notify_one();
        }
        Some(key)
    }

    /// Marks `key` as being worked on even if it was not queued; `false` when someone else has it.
    pub fn claim(&self, key: &Key) -> bool {
        let mut state = self.state.lock();
        if state.running.contains(key) {
            return false;
        }
        if state.queued.remove(key) {
            state.ready.retain(|queued| queued != key);
            state.late.retain(|(_, queued)| queued != key);
        }
        state.take_out(key);
        true
    }

    /// Gives a key back.
    pub fn finish(&self, key: &Key) {
        let again = {
            let mut state = self.state.lock();
            state.running.remove(key);
            state.again.remove(key)
        };
        if again {
            self.add(key.clone());
        }
    }

    /// Counts one more transient failure in a row.
    pub fn failed(&self, key: &Key) -> u32 {
        let mut state = self.state.lock();
        let failures = state.failures.entry(key.clone()).or_default();
        *failures += 1;
        *failures
    }

    /// Counts one more stale observation in a row.
    pub fn stale(&self, key: &Key) -> u32 {
        let mut state = self.state.lock();
        let count = state.stale.entry(key.clone()).or_default();
        *count += 1;
        *count
    }

    /// Forgets earlier failures.
    pub fn succeeded(&self, key: &Key) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        state.stale.remove(key);
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.state.lock().timers.first().map(|(at, _)| *at)
    }

    /// How many keys want attention now.
    pub fn depth(&self) -> usize {
        self.state.lock().depth()
    }

    /// The keys that want attention now, in order.
    pub fn ready(&self) -> Vec<Key> {
        let state = self.state.lock();
        state.late.iter().map(|(_, key)| key).chain(&state.ready).cloned().collect()
    }

    /// Waits while keys of a punctual queue are late. One that is late by more than [`HOPELESS`] is not waited for: whoever
    /// asks for more than can be done in time must not hold up everybody else.
    pub(crate) async fn on_time(&self, now: Timestamp) {
        loop {
            let mut caught_up = std::pin::pin!(self.on_time.notified());
            caught_up.as_mut().enable();
            if self.state.lock().late.front().is_none_or(|(at, _)| now.duration_since(*at) > HOPELESS) {
                return;
            }
            caught_up.await;
        }
    }

    /// Waits until a key or a timer was added.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl State {
    fn wake(&mut self, now: Timestamp) {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, key.clone()));
            self.due.remove(&key);
            if self.running.contains(&key) {
                self.again.insert(key);
            } else if self.queued.insert(key.clone()) {
                if self.punctual {
                    self.late.push_back((at, key));
                } else {
                    self.ready.push_back(key);
                }
            }
        }
    }

    fn depth(&self) -> usize {
        self.late.len() + self.ready.len()
    }

    /// A new look makes an old timer pointless: the decision sets its own.
    fn take_out(&mut self, key: &Key) {
        if let Some(at) = self.due.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
        self.running.insert(key.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("n", name)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn a_key_is_never_worked_on_twice_at_once_and_nothing_is_lost() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.take(at(0)), Some(key("a")));
        queue.add(key("a"));
        assert_eq!(queue.take(at(0)), None);
        assert!(!queue.claim(&key("a")));
        queue.finish(&key("a"));
        assert_eq!(queue.take(at(0)), Some(key("a")));
        queue.finish(&key("a"));
        assert_eq!(queue.take(at(0)), None);
    }

    #[test]
    fn the_earliest_timer_wins_and_a_look_clears_it() {
        let queue = Queue::default();
        queue.add_at(key("a"), at(30));
        queue.add_at(key("a"), at(10));
        queue.add_at(key("a"), at(20));
        assert_eq!(queue.next_timer(), Some(at(10)));
        assert_eq!(queue.take(at(9)), None);
        assert_eq!(queue.take(at(10)), Some(key("a")));
        assert_eq!(queue.next_timer(), None);
    }

    #[tokio::test]
    async fn in_a_punctual_queue_time_comes_before_change() {
        let queue = Queue::punctual();
        queue.add_at(key("b"), at(10));
        queue.add_at(key("c"), at(20));
        queue.add(key("a"));
        assert_eq!(queue.take(at(9)), Some(key("a")));
        queue.add(key("d"));
        assert_eq!(queue.take(at(20)), Some(key("b")));
        assert_eq!((queue.ready(), queue.depth()), (vec![key("c"), key("d")], 2));
        queue.on_time(at(31)).await;
        let mut waiting = std::pin::pin!(queue.on_time(at(30)));
        assert!(futures::poll!(&mut waiting).is_pending(), "one is late, but not beyond hope");
        assert_eq!(queue.take(at(20)), Some(key("c")));
        waiting.await;
        assert_eq!(queue.take(at(20)), Some(key("d")));
    }

    #[test]
    fn retries_double_up_to_five_minutes() {
        let seconds: Vec<u64> = (1..=8).map(|failures| retry_delay(failures).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(retry_delay(u32::MAX), RETRY_LAST);
    }
}
