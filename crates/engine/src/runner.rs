//! One look at one key: observe, decide, act, and when to look again.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use tracing::Instrument;

use crate::act::{Applier, Stop};
use crate::clock::SharedClock;
use crate::controller::{Controller, QUIET, identity};
use crate::decision::{Decision, Outcome};
use crate::error::{Failure, FailureKind};
use crate::events::Recorder;
use crate::key::Key;
use crate::metrics::ControllerMetrics;
use crate::queue::{Queue, WAITING, retry_delay};
use crate::view::View;

/// So many times in a row a stale observation is simply made again; after that someone else is writing all the time.
const STALE_AT_ONCE: u32 = 10;

/// A controller with everything it needs to run.
pub(crate) struct Runner<C> {
    pub(crate) controller: C,
    pub(crate) view: View,
    pub(crate) queue: Arc<Queue>,
    pub(crate) applier: Applier,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) clock: SharedClock,
    pub(crate) metrics: ControllerMetrics,
}

/// A runner whose controller is known only to itself.
pub(crate) trait Run: Send + Sync {
    fn name(&self) -> &'static str;
    /// Keys that may be worked on at the same time.
    fn workers(&self) -> usize;
    fn is_punctual(&self) -> bool;
    fn queue(&self) -> &Arc<Queue>;
    fn recorder(&self) -> &Arc<Recorder>;
    /// Looks at a key that the caller has taken out of the queue, and gives it back.
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Outcome>;
}

impl<C: Controller> Run for Runner<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn workers(&self) -> usize {
        C::WORKERS
    }

    fn is_punctual(&self) -> bool {
        C::PUNCTUAL
    }

    fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Outcome> {
        let span = tracing::debug_span!("reconcile", controller = C::NAME, %key);
        Box::pin(
            async move {
                let _back = GiveBack { queue: &self.queue, key };
                let started = Instant::now();
                let outcome = self.look(key).await;
                self.metrics.reconciled(label(&outcome), started.elapsed());
                self.metrics.depth(self.queue.depth());
                outcome
            }
            .instrument(span),
        )
    }
}

impl<C: Controller> Runner<C> {
    async fn look(&self, key: &Key) -> Outcome {
        let observed = match self.controller.observe(key, &self.view).await {
            Ok(Some(observed)) => observed,
            Ok(None) => return self.settle(key, &Decision::none()),
            Err(error) => return self.retry(key, format!("cannot observe: {}", error.chain())),
        };
        let now = self.clock.now();
        let decision = self.controller.decide(&observed, now);
        let (done, result) = self.applier.act(&decision.steps).await;
        // What happened is told although something after it did not: the next decision finds it done and is silent.
        self.recorder.record(&decision.told(done), now);
        match result {
            Ok(()) => self.settle(key, &decision),
            Err(Stop::Stale) => self.stale(key),
            Err(Stop::Failed(failure)) => {
                let answer = self.controller.refused(&observed, &failure, now);
                let quiet = (identity(&self.queue), key.clone());
                match QUIET.scope(quiet, self.applier.act(&answer.steps)).await.1 {
                    Ok(()) => {}
                    Err(Stop::Stale) => return self.stale(key),
                    Err(Stop::Failed(second)) => {
                        tracing::warn!(message = second.message, "the failure could not be shown in the status");
                    }
                }
                self.recorder.record(&answer.events, now);
                self.after(key, failure)
            }
        }
    }

    /// Applies the one failure policy to a decision that was carried out.
    fn settle(&self, key: &Key, decision: &Decision) -> Outcome {
        let now = self.clock.now();
        if let Some(at) = decision.look_again {
            self.queue.add_at(key.clone(), at);
        }
        match &decision.outcome {
            Outcome::Retry(reason) => return self.retry(key, reason.clone()),
            Outcome::Waiting(reason) => {
                tracing::debug!(reason, "waiting");
                self.queue.add_at(key.clone(), now + WAITING);
            }
            Outcome::Permanent(reason) => tracing::info!(reason, "cannot work as it is; waiting for a change"),
            Outcome::Done => {}
        }
        self.queue.succeeded(key);
        decision.outcome.clone()
    }

    fn after(&self, key: &Key, failure: Failure) -> Outcome {
        match failure.kind {
            FailureKind::Transient => self.retry(key, failure.message),
            FailureKind::Waiting => {
                tracing::info!(reason = failure.reason, message = failure.message, "waiting");
                self.queue.add_at(key.clone(), self.clock.now() + WAITING);
                Outcome::Waiting(failure.message)
            }
            FailureKind::Permanent => {
                tracing::warn!(reason = failure.reason, message = failure.message, "refused for good");
                self.queue.succeeded(key);
                Outcome::Permanent(failure.message)
            }
        }
    }

    fn stale(&self, key: &Key) -> Outcome {
        if self.queue.stale(key) > STALE_AT_ONCE {
            return self.retry(key, "the object keeps changing under our hands".to_owned());
        }
        self.queue.add(key.clone());
        Outcome::Done
    }

    fn retry(&self, key: &Key, reason: String) -> Outcome {
        let failures = self.queue.failed(key);
        let delay = retry_delay(failures);
        tracing::warn!(failures, delay_seconds = delay.as_secs(), reason, "failed; will be tried again");
        self.queue.add_at(key.clone(), self.clock.now() + delay);
        Outcome::Retry(reason)
    }
}

/// Gives the key back even when the look is cut short.
struct GiveBack<'a> {
    queue: &'a Queue,
    key: &'a Key,
}

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        self.queue.finish(self.key);
    }
}

fn label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Waiting(_) => "waiting",
        Outcome::Retry(_) => "retry",
        Outcome::Permanent(_) => "permanent",
    }
}
