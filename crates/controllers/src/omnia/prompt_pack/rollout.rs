//! Whether a valid new content becomes active, gets a share of the sessions, or is given up. Pure.

use api::omnia::routing::window;
use api::omnia::{
    AgentCanary, AgentCanaryStage, AgentRuntime, Analysis, Canary, CanaryStage, CanaryStatus, KeptVersion,
    RejectedVersion, RolloutType, SideStatus, Verdict,
};
use engine::condition::Truth;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::decide::bare;
use super::observe::Observed;

/// Why a version was given up: somebody asked for it.
pub(super) const ABORTED: &str = "Aborted";
/// A step takes at least so long: the numbers come every few seconds.
const SHORTEST_STEP: SignedDuration = SignedDuration::from_secs(1);

/// What becomes of a content.
pub(super) enum Course {
    /// It is active.
    Activate,
    /// It has a share of the sessions.
    Canary(Box<Progress>),
    /// It is given up.
    Reject(RejectedVersion),
}

/// How a canary goes.
pub(super) struct Progress {
    pub(super) status: CanaryStatus,
    /// The share it should have, in percent.
    pub(super) weight: i32,
    pub(super) truth: Truth,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) look_again: Option<Timestamp>,
}

/// Decides what becomes of the content that is wanted.
pub(super) fn course(observed: &Observed, wanted: &KeptVersion, now: Timestamp) -> Course {
    let pack = &*observed.pack;
    let status = pack.status.clone().unwrap_or_default();
    let active = status.versions.first().filter(|_| status.active_version.is_some());
    let is_active = active.is_none_or(|active| active.config_map == wanted.config_map);
    if is_active || pack.spec.rollout.type_ != RolloutType::Canary {
        return Course::Activate;
    }
    let spec = pack.spec.rollout.canary.clone().unwrap_or_default();
    let names = |named: &Option<String>| named.as_ref().is_some_and(|named| bare(named) == bare(&wanted.version));
    let rejected = status.rejected.filter(|rejected| rejected.config_map == wanted.config_map);
    if names(&spec.abort) {
        let again = rejected.filter(|rejected| rejected.reason == ABORTED);
        let message = "spec.rollout.canary.abort names it: remove that to try it again";
        return Course::Reject(again.unwrap_or_else(|| reject(wanted, ABORTED, message, now)));
    }
    if let Some(rejected) = rejected.filter(|rejected| rejected.reason != ABORTED && !names(&spec.promote)) {
        return Course::Reject(rejected);
    }
    let followers = observed.followers();
    if followers.is_empty() {
        // There are no sessions to protect.
        return Course::Activate;
    }
    let known = status.canary.filter(|canary| canary.config_map == wanted.config_map);
    let weight = known.as_ref().and(status.canary_weight).unwrap_or(spec.weight);
    let status = known.unwrap_or_else(|| CanaryStatus {
        config_map: wanted.config_map.clone(),
        declared_weight: spec.weight,
        step: 1,
        last_progress: Some(Time(now)),
        ..CanaryStatus::default()
    });
    let mut run = Run { spec: &spec, wanted, followers, status, weight, now };
    if run.status.declared_weight != spec.weight && run.status.stage != CanaryStage::Promoting {
        run.status.declared_weight = spec.weight;
        run.step_to(spec.weight);
    }
    if names(&spec.promote) {
        run.step_to(100);
    }
    run.go()
}

/// A canary while it is decided about.
struct Run<'a> {
    spec: &'a Canary,
    wanted: &'a KeptVersion,
    followers: Vec<&'a AgentRuntime>,
    status: CanaryStatus,
    weight: i32,
    now: Timestamp,
}

impl Run<'_> {
    fn go(mut self) -> Course {
        if self.weight >= 100 {
            self.status.stage = CanaryStage::Promoting;
        }
        self.measure();
        if self.status.stage == CanaryStage::Promoting {
            return self.promote();
        }
        if let Some(reason) = self.behind() {
            return self.overdue().unwrap_or_else(|| self.progress(Truth::Unknown, "AgentsNotReady", reason, None));
        }
        self.status.stage = CanaryStage::Running;
        let started = self.status.step_started.get_or_insert(Time(self.now)).0;
        let Some(step) = self.spec.step() else {
            let message = format!("it has {} % of the sessions until somebody changes weight", self.weight);
            return self.progress(Truth::True, "Holding", message, None);
        };
        let due = later(started, length(&self.spec.interval).max(SHORTEST_STEP));
        if self.now < due {
            let message = format!("it has {} % of the sessions, and more at {due}", self.weight);
            return self.overdue().unwrap_or_else(|| self.progress(Truth::True, "Stepping", message, Some(due)));
        }
        self.judge(step)
    }

    /// The end of a step.
    fn judge(mut self, step: i32) -> Course {
        let (verdict, message) = match &self.spec.analysis {
            Some(analysis) => verdict(analysis, &self.status.canary),
            None => (Verdict::Passed, String::new()),
        };
        self.status.verdict = Some(verdict);
        match verdict {
            Verdict::Passed => {
                let weight = (self.weight + step).min(100);
                self.status.failures = 0;
                self.step_to(weight);
                self.go()
            }
            Verdict::Inconclusive => self
                .overdue()
                .unwrap_or_else(|| self.progress(Truth::Unknown, "Inconclusive", format!("paused: {message}"), None)),
            Verdict::Failed => {
                self.status.failures += 1;
                let most = self.spec.analysis.as_ref().map_or(1, |analysis| analysis.consecutive_failures);
                if self.status.failures >= most {
                    let message = format!("{message}, {} steps in a row", self.status.failures);
                    return Course::Reject(reject(self.wanted, "AnalysisFailed", &message, self.now));
                }
                self.next_window();
                let message = format!("{message}; {} of {most} failures", self.status.failures);
                self.overdue().unwrap_or_else(|| self.progress(Truth::False, "StepFailed", message, None))
            }
        }
    }

    /// Every session is at the new version. It becomes active when nobody waits for the other one any more.
    fn promote(mut self) -> Course {
        self.weight = 100;
        let moved = |canary: &AgentCanary| canary.moved && canary.config_map == self.wanted.config_map;
        let not_yet = self.names(|canary| !moved(canary));
        if not_yet.is_empty() {
            return Course::Activate;
        }
        let message = format!("every session goes to it; waiting for the last requests of {not_yet}");
        self.progress(Truth::True, "Promoting", message, None)
    }

    /// Agents that do not have the present share.
    fn behind(&self) -> Option<String> {
        let window = window(&self.status.config_map, self.status.step);
        let behind = self.names(|canary| {
            canary.stage != AgentCanaryStage::Routing || canary.window != window || canary.weight != self.weight
        });
        (!behind.is_empty()).then(|| format!("waiting for {behind} to give it {} % of the sessions", self.weight))
    }

    /// The names of agents whose part is like this, or that have none.
    fn names(&self, is: impl Fn(&AgentCanary) -> bool) -> String {
        let lacks = |agent: &&&AgentRuntime| part(agent).is_none_or(&is);
        let names: Vec<String> = self.followers.iter().filter(lacks).map(|agent| agent.name_any()).collect();
        names.join(", ")
    }

    /// A canary that could step and does not is given up in the end.
    fn overdue(&mut self) -> Option<Course> {
        let deadline = self.deadline()?;
        (self.now >= deadline).then(|| {
            let message = format!(
                "no step for {} (spec.rollout.canary.progressDeadline)",
                self.spec.progress_deadline.as_ref().map(|deadline| deadline.0.as_str()).unwrap_or_default()
            );
            Course::Reject(reject(self.wanted, "ProgressDeadlineExceeded", &message, self.now))
        })
    }

    fn deadline(&self) -> Option<Timestamp> {
        // A share that waits for somebody to change it is late for nothing once it is there.
        let waits = self.spec.step().is_some() || self.status.stage == CanaryStage::Preparing;
        let last = self.status.last_progress.as_ref().filter(|_| waits)?.0;
        self.spec.progress_deadline.as_ref().map(|deadline| later(last, length(deadline)))
    }

    fn step_to(&mut self, weight: i32) {
        if weight != self.weight {
            self.weight = weight;
            self.status.last_progress = Some(Time(self.now));
            self.next_window();
        }
    }

    /// The numbers begin again.
    fn next_window(&mut self) {
        self.status.step += 1;
        self.status.step_started = None;
        self.measure();
    }

    /// Adds up what the agents' routers measured in this step.
    fn measure(&mut self) {
        let window = window(&self.status.config_map, self.status.step);
        let parts: Vec<&AgentCanary> =
            self.followers.iter().filter_map(|agent| part(agent)).filter(|part| part.window == window).collect();
        let stable = sum(parts.iter().map(|part| &part.stable));
        let canary = sum(parts.iter().map(|part| &part.canary));
        let all = stable.requests + canary.requests;
        self.status.stable = stable.with_rates(all);
        self.status.canary = canary.with_rates(all);
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        self.status.agents = count(self.followers.len());
        self.status.agents_ready = count(parts.iter().filter(|part| part.weight == self.weight).count());
    }

    fn progress(
        &mut self,
        truth: Truth,
        reason: &'static str,
        message: impl Into<String>,
        look_again: Option<Timestamp>,
    ) -> Course {
        let message = message.into();
        let deadline = self.deadline().filter(|_| self.status.stage != CanaryStage::Promoting);
        Course::Canary(Box::new(Progress {
            status: self.status.clone(),
            weight: self.weight,
            truth,
            reason,
            message: format!("version {}: {message}", self.wanted.version),
            look_again: look_again.into_iter().chain(deadline).min(),
        }))
    }
}

fn part(agent: &AgentRuntime) -> Option<&AgentCanary> {
    agent.status.as_ref()?.canary.as_ref()
}

/// All requests of several agents; the slowest stands for their latency.
fn sum<'a>(sides: impl Iterator<Item = &'a SideStatus>) -> SideStatus {
    sides.fold(SideStatus::default(), |sum, side| SideStatus {
        requests: sum.requests + side.requests,
        errors: sum.errors + side.errors,
        in_flight: sum.in_flight + side.in_flight,
        latency_p50_ms: sum.latency_p50_ms.max(side.latency_p50_ms),
        latency_p95_ms: sum.latency_p95_ms.max(side.latency_p95_ms),
        ..SideStatus::default()
    })
}

fn verdict(analysis: &Analysis, side: &SideStatus) -> (Verdict, String) {
    let least = analysis.min_requests;
    if side.requests < least {
        let message = format!("{} of at least {least} requests in this step (minRequests)", side.requests);
        return (Verdict::Inconclusive, message);
    }
    if let Some(most) = analysis.max_error_rate.filter(|most| side.error_rate > *most) {
        return (Verdict::Failed, format!("{} % of its requests failed, {most} % may (maxErrorRate)", side.error_rate));
    }
    let slow = |most: &&api::duration::Duration| i128::from(side.latency_p95_ms) > length(most).as_millis();
    if let Some(most) = analysis.max_latency.as_ref().filter(slow) {
        let message =
            format!("95 of 100 requests took up to {} ms, they may take {} (maxLatency)", side.latency_p95_ms, most.0);
        return (Verdict::Failed, message);
    }
    (Verdict::Passed, String::new())
}

/// The schema has checked that it can be read.
fn length(duration: &api::duration::Duration) -> SignedDuration {
    duration.parse().unwrap_or(SignedDuration::MAX)
}

/// An instant after another; the end of time when it is later than that.
fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn reject(wanted: &KeptVersion, reason: &str, message: &str, now: Timestamp) -> RejectedVersion {
    RejectedVersion {
        version: wanted.version.clone(),
        config_map: wanted.config_map.clone(),
        reason: reason.into(),
        message: format!("version {} was given up: {message}", wanted.version),
        time: Time(now),
    }
}
