//! Leader election over a `coordination.k8s.io/v1` Lease: one process works, the others stand by.
//!
//! A lease alone cannot stop a paused leader from writing late; that is why every write of the engine is conditional.
//! The lease keeps two leaders from getting in each other's way, and hands over at once when one shuts down.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio_util::sync::CancellationToken;

use crate::clock::SharedClock;
use crate::error::Error;

/// A candidate for one lease.
#[derive(Clone)]
pub struct Election {
    api: Api<Lease>,
    name: String,
    identity: String,
    duration: Duration,
}

/// What a candidate saw of another's lease: a lease is dead when it has not changed for its duration *since we first
/// saw it so*, by our own clock. The holder's clock does not matter.
struct Seen {
    version: String,
    at: Timestamp,
}

impl Election {
    /// A candidate called `identity` (unique among the candidates) for the lease `namespace/name`.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
        }
    }

    /// Leads whenever it can, until told to stop: runs `work` for each term, whose token ends with the lease, and
    /// gives the lease back once the work has ended.
    pub async fn lead<W, F>(self, clock: &SharedClock, stop: &CancellationToken, work: W)
    where
        W: Fn(CancellationToken) -> F,
        F: Future<Output = ()>,
    {
        let retry = self.duration / 5;
        let mut seen = None;
        while !stop.is_cancelled() {
            match self.acquire(clock.now(), &mut seen).await {
                Ok(Some(lease)) => self.term(lease, clock, stop, &work).await,
                Ok(None) => pause(clock, retry, stop).await,
                Err(error) => {
                    tracing::warn!(lease = self.name, error = %error.chain(), "cannot compete for the lease");
                    pause(clock, retry, stop).await;
                }
            }
        }
    }

    async fn term<W, F>(&self, lease: Lease, clock: &SharedClock, stop: &CancellationToken, work: &W)
    where
        W: Fn(CancellationToken) -> F,
        F: Future<Output = ()>,
    {
        tracing::info!(lease = self.name, identity = self.identity, "leading");
        let term = stop.child_token();
        let ended = CancellationToken::new();
        let working = async {
            work(term.clone()).await;
            ended.cancel();
        };
        let (held, ()) = futures::join!(self.hold(lease, clock, &term, &ended), working);
        if let Some(lease) = held
            && let Err(error) = self.release(lease, clock.now()).await
        {
            tracing::warn!(lease = self.name, error = %error.chain(), "the lease was not given back; it will run out");
        }
    }

    /// Renews until the work has ended; ends the term when the lease is lost. `None` when there is nothing to give back.
    async fn hold(
        &self,
        mut lease: Lease,
        clock: &SharedClock,
        term: &CancellationToken,
        ended: &CancellationToken,
    ) -> Option<Lease> {
        let mut renewed = clock.now();
        loop {
            pause(clock, self.duration / 5, ended).await;
            if ended.is_cancelled() {
                return Some(lease);
            }
            let now = clock.now();
            match self.renew(lease.clone(), now).await {
                Ok(next) => (lease, renewed) = (next, now),
                Err(error) => {
                    tracing::warn!(lease = self.name, error = %error.chain(), "the lease was not renewed");
                    // Stop well before the others may start.
                    if error.is_stale() || now >= renewed + self.duration * 2 / 3 {
                        term.cancel();
                        ended.cancelled().await;
                        return None;
                    }
                }
            }
        }
    }

    /// Takes the lease if it is free, ours, or dead.
    async fn acquire(&self, now: Timestamp, seen: &mut Option<Seen>) -> Result<Option<Lease>, Error> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(now, None)) };
            return match self.api.create(&PostParams::default(), &lease).await.map_err(Error::from) {
                Ok(lease) => Ok(Some(lease)),
                Err(error) if error.is_already_exists() => Ok(None),
                Err(error) => Err(error),
            };
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        if !holder.is_empty() && holder != self.identity && !self.is_dead(&lease, now, seen) {
            return Ok(None);
        }
        match self.renew(lease, now).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_stale() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_dead(&self, lease: &Lease, now: Timestamp, seen: &mut Option<Seen>) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).max(self.duration);
        match seen {
            Some(seen) if seen.version == version => now >= seen.at + duration,
            _ => {
                *seen = Some(Seen { version, at: now });
                false
            }
        }
    }

    /// Writes ourselves into the lease, if it is still as it was read.
    async fn renew(&self, mut lease: Lease, now: Timestamp) -> Result<Lease, Error> {
        lease.spec = Some(self.spec(now, lease.spec.as_ref()));
        Ok(self.api.replace(&self.name, &PostParams::default(), &lease).await?)
    }

    async fn release(&self, mut lease: Lease, now: Timestamp) -> Result<(), Error> {
        let mut spec = self.spec(now, lease.spec.as_ref());
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        lease.spec = Some(spec);
        self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        Ok(())
    }

    fn spec(&self, now: Timestamp, before: Option<&LeaseSpec>) -> LeaseSpec {
        let ours = before.filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let terms = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: ours.and_then(|spec| spec.acquire_time.clone()).or(Some(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(if ours.is_some() || before.is_none() { terms } else { terms + 1 }),
            ..LeaseSpec::default()
        }
    }
}

async fn pause(clock: &SharedClock, time: Duration, stop: &CancellationToken) {
    let wake = clock.now() + time;
    tokio::select! {
        () = stop.cancelled() => {}
        () = clock.sleep_until(wake) => {}
    }
}
