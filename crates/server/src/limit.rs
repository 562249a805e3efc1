//! Rate limits: so many requests a second for each caller, more for a moment.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::peer::Peer;

/// How much is too much.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Requests a second, for ever.
    pub per_second: u32,
    /// Requests at once, after a pause.
    pub burst: u32,
}

/// Callers who have not been seen for as long as it takes to fill their bucket are forgotten; past this many, so is
/// everybody.
const MOST: usize = 10_000;

/// Remembers until when each caller has used up what they were given.
pub struct Limits {
    step: Duration,
    ahead: Duration,
    known: Mutex<HashMap<String, Instant>>,
}

impl Limits {
    /// No more than `rate`.
    pub fn new(rate: Rate) -> Self {
        let step = Duration::from_secs(1) / rate.per_second.max(1);
        Self { step, ahead: step * rate.burst.max(1), known: Mutex::default() }
    }

    /// Whether one more could be taken; or how long to wait. Takes nothing.
    pub fn check(&self, who: &str, now: Instant) -> Result<(), Duration> {
        self.next(&self.known.lock(), who, now).map(drop)
    }

    /// Takes one; or how long to wait.
    pub fn take(&self, who: &str, now: Instant) -> Result<(), Duration> {
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.retain(|_, until| *until > now);
            if known.len() >= MOST {
                known.clear();
            }
        }
        let until = self.next(&known, who, now)?;
        known.insert(who.to_owned(), until);
        Ok(())
    }

    /// Until when one more would be used up.
    fn next(&self, known: &HashMap<String, Instant>, who: &str, now: Instant) -> Result<Instant, Duration> {
        let until = known.get(who).copied().unwrap_or(now).max(now) + self.step;
        match until.saturating_duration_since(now + self.ahead) {
            Duration::ZERO => Ok(until),
            beyond => Err(beyond),
        }
    }
}

/// Counts requests of a caller who is known.
pub async fn callers(State(app): State<App>, request: Request, next: Next) -> Response {
    let who = request.extensions().get::<Caller>().map(|caller| caller.user.name.clone()).unwrap_or_default();
    pass(&app.limits, &who, request, next).await
}

/// Counts attempts to sign in, by address: whoever guesses has no name yet.
pub async fn strangers(State(app): State<App>, request: Request, next: Next) -> Response {
    let who = request.extensions().get::<Peer>().map(Peer::key).unwrap_or_default();
    pass(&app.attempts, &who, request, next).await
}

async fn pass(limits: &Limits, who: &str, request: Request, next: Next) -> Response {
    match limits.take(who, Instant::now()) {
        Ok(()) => next.run(request).await,
        Err(wait) => too_many(wait).into_response(),
    }
}

/// Refuses until later.
pub fn too_many(wait: Duration) -> Error {
    let seconds = wait.as_secs() + 1;
    let message = format!("Too many requests. Try again in {seconds} s");
    Error::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).retry_after(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_one_each_step_and_others_are_not_touched() {
        let limits = Limits::new(Rate { per_second: 10, burst: 3 });
        let start = Instant::now();
        let taken = |who: &str, after: u64| limits.take(who, start + Duration::from_millis(after)).is_ok();
        assert_eq!([0, 0, 0, 0].map(|after| taken("ada", after)), [true, true, true, false]);
        assert!(taken("bob", 0));
        assert_eq!([100, 100].map(|after| taken("ada", after)), [true, false]);
        assert_eq!([10_000, 10_000, 10_000, 10_000].map(|after| taken("ada", after)), [true, true, true, false]);
    }
}
