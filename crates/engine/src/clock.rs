//! The only source of time: decisions get `now` from here, and timers sleep on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
    /// Completes once `now()` is at or past `deadline`.
    fn sleep_until(&self, deadline: Timestamp) -> BoxFuture<'static, ()>;
}

/// A clock that several parts of a process share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealClock;

impl RealClock {
    /// The machine's clock, ready to share.
    pub fn shared() -> SharedClock {
        Arc::new(Self)
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, deadline: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // The wall clock may be set back while we sleep, so look at it again on waking.
            while let Ok(left) = Duration::try_from(deadline.duration_since(Timestamp::now())) {
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            }
        })
    }
}

/// A clock that moves only when told to: two virtual years pass in no time.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    state: Arc<Mutex<Virtual>>,
}

#[derive(Debug)]
struct Virtual {
    now: Timestamp,
    sleepers: BTreeMap<Timestamp, Vec<oneshot::Sender<()>>>,
}

impl VirtualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { state: Arc::new(Mutex::new(Virtual { now, sleepers: BTreeMap::new() })) }
    }

    /// Moves forward by `step` and wakes whoever was waiting for that.
    pub fn advance(&self, step: Duration) {
        let target = self.now() + step;
        self.set(target);
    }

    /// Jumps to `target`, forwards or backwards, as a user's clock may.
    pub fn set(&self, target: Timestamp) {
        let mut state = self.state.lock();
        state.now = target;
        let later = state.sleepers.split_off(&target);
        let mut due = std::mem::replace(&mut state.sleepers, later);
        if let Some(exact) = state.sleepers.remove(&target) {
            due.insert(target, exact);
        }
        drop(state);
        for sleeper in due.into_values().flatten() {
            // A sleeper that gave up in the meantime needs no waking.
            let _ = sleeper.send(());
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.state.lock().now
    }

    fn sleep_until(&self, deadline: Timestamp) -> BoxFuture<'static, ()> {
        let mut state = self.state.lock();
        if state.now >= deadline {
            return Box::pin(std::future::ready(()));
        }
        let (wake, woken) = oneshot::channel();
        state.sleepers.entry(deadline).or_default().push(wake);
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_sleeper_wakes_exactly_when_its_time_has_come() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
        let clock = VirtualClock::at(start);
        let mut sleep = clock.sleep_until(start + Duration::from_secs(10));
        clock.advance(Duration::from_secs(9));
        assert!((&mut sleep).now_or_never().is_none(), "too early");
        clock.advance(Duration::from_secs(1));
        assert!(sleep.now_or_never().is_some(), "due");
        assert!(clock.sleep_until(start).now_or_never().is_some(), "the past is over at once");
    }
}
