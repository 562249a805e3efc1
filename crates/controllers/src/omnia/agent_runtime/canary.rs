//! An agent's part of its pack's canary: a second Deployment, and a router that stands behind the Service while there is
//! one. Pure.
//!
//! There: make both ready → lead the Service to the router, which sends everybody to the first Deployment → when nobody
//! connects to the Pods directly any more, give the new version its share.
//! Back, whether the new version was promoted or given up: when the first Deployment plays the active version, send
//! everybody there → lead the Service to the Pods → when the router's last request is done, take everything away.

use api::omnia::routing::{Report, Routing, Tally, window};
use api::omnia::{AgentCanary, AgentCanaryStage, CanaryStatus, KeptVersion, RolloutType, names};
use engine::Decision;
use engine::condition::Truth;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::objects::{Side, deployment};
use super::observe::Observed;
use super::plan::{Plan, prompt};
use super::router;
use crate::omnia::Settings;

/// What is to be done about a canary, beside the agent's own objects.
#[derive(Default)]
pub(super) struct Course {
    /// Whether the Service leads to the router.
    pub(super) routed: bool,
    /// What the status says; `None` when there is nothing to say.
    pub(super) status: Option<AgentCanary>,
    /// The condition `CanaryReady`.
    pub(super) condition: Option<(Truth, &'static str, String)>,
    pub(super) look_again: Option<Timestamp>,
}

/// What the pack wants of this agent.
struct Want {
    version: KeptVersion,
    weight: i32,
    window: String,
}

fn wanted(observed: &Observed) -> Option<Want> {
    let pack = observed.pack.as_ref()?;
    let follows = observed.runtime.spec.prompt_pack_ref.version.is_none();
    let status = pack.status.as_ref().filter(|_| follows && pack.spec.rollout.type_ == RolloutType::Canary)?;
    let CanaryStatus { config_map, step, .. } = status.canary.as_ref()?;
    let version = status.versions.iter().find(|version| version.config_map == *config_map)?.clone();
    Some(Want { version, weight: status.canary_weight?, window: window(config_map, *step) })
}

/// Decides, and states the steps.
pub(super) fn course(
    observed: &Observed,
    plan: &Plan,
    settings: &Settings,
    tools: Option<&k8s_openapi::api::core::v1::ConfigMap>,
    decision: &mut Decision,
    now: Timestamp,
) -> Course {
    let trial = Trial::new(observed, plan, settings, now);
    match wanted(observed) {
        Some(want) => trial.there(&want, tools, decision),
        None if observed.canary.is_nothing() => Course::default(),
        None => trial.back(tools, decision),
    }
}

struct Trial<'a> {
    observed: &'a Observed,
    plan: &'a Plan,
    settings: &'a Settings,
    now: Timestamp,
    /// What the status said.
    before: AgentCanary,
    /// What the routers were told.
    told: Option<Routing>,
    /// What all of them act on and have counted; `None` when one of them does not answer or acts on something else.
    heard: Option<(Tally, Tally)>,
    /// The content of the second Deployment.
    content: Option<String>,
    leads: bool,
}

impl<'a> Trial<'a> {
    fn new(observed: &'a Observed, plan: &'a Plan, settings: &'a Settings, now: Timestamp) -> Self {
        let status = observed.runtime.status.as_ref();
        let before = status.and_then(|status| status.canary.clone()).unwrap_or_default();
        let told = observed.canary.routing.as_ref().and_then(|map| router::told(map));
        let heard = told.as_ref().and_then(|told| heard(&observed.canary.reports, told));
        let deployment = observed.canary.deployment.as_ref();
        let content = deployment.and_then(|made| made.annotations().get(names::CONTENT_ANNOTATION).cloned());
        let leads = observed.canary.service.as_ref().is_some_and(|service| router::leads_to_router(service));
        Self { observed, plan, settings, now, before, told, heard, content, leads }
    }

    fn there(
        self,
        want: &Want,
        tools: Option<&k8s_openapi::api::core::v1::ConfigMap>,
        decision: &mut Decision,
    ) -> Course {
        let problem = |reason: &'static str, message: String| Course {
            routed: self.leads,
            status: Some(AgentCanary {
                version: want.version.version.clone(),
                config_map: want.version.config_map.clone(),
                ..self.before.clone()
            }),
            condition: Some((Truth::False, reason, message)),
            look_again: None,
        };
        let Some(image) = &self.settings.router_image else {
            let message = "there is no image with the router: give one to the controller with --helper-image";
            return problem("RouterImageRequired", message.into());
        };
        let prompt = match prompt(&self.observed.runtime, &want.version) {
            Ok(prompt) => prompt,
            Err(fault) => return problem(fault.reason, fault.message),
        };
        let plan = Plan { version: want.version.clone(), pinned: true, prompt, ..self.plan.clone() };
        let made = deployment(self.observed, &plan, tools, Side::Canary);
        let is_wanted = self.content.as_ref() == Some(&want.version.config_map);
        // Nobody may be sent to a content that is not the one they were promised.
        let idle = self.heard.as_ref().is_some_and(|(_, canary)| canary.in_flight == 0) && self.weight() == 0;
        let may_change = is_wanted || idle || self.content.is_none() || self.told.is_none();
        let ready = is_wanted && is_rolled_out(self.observed.canary.deployment.as_deref(), &made);
        let weight = if is_wanted && (self.weight() > 0 || (ready && self.has_settled())) { want.weight } else { 0 };
        let spec = self.observed.pack.as_ref().and_then(|pack| pack.spec.rollout.canary.clone()).unwrap_or_default();
        let routing = Routing {
            weight,
            salt: want.version.config_map.clone(),
            window: want.window.clone(),
            session_header: spec.session_header,
            session_cookie: spec.session_cookie,
            retiring: false,
            ..router::idle(self.observed, &self.settings.cluster_domain)
        };
        router::apply(self.observed, image, &routing, decision);
        if may_change {
            decision.apply(&made);
        }
        let routed = self.leads || router::is_ready(self.observed);
        let stage = if routed { AgentCanaryStage::Routing } else { AgentCanaryStage::Preparing };
        let mut status = self.status(stage);
        status.version.clone_from(&want.version.version);
        status.config_map.clone_from(&want.version.config_map);
        status.moved = self.has_moved(want, &status);
        let (ready, reason, message) = match (routed, ready) {
            (true, true) => (Truth::True, "Routing", format!("{} % of the sessions go to it", status.weight)),
            (false, _) => (Truth::False, "RouterNotReady", "the router is starting".to_owned()),
            (_, false) => (Truth::False, "DeploymentNotReady", "the second Deployment is starting".to_owned()),
        };
        let message = format!("version {}: {message}", want.version.version);
        self.course(routed, status, (ready, reason, message))
    }

    fn back(self, tools: Option<&k8s_openapi::api::core::v1::ConfigMap>, decision: &mut Decision) -> Course {
        let (Some(told), Some(_)) = (&self.told, &self.observed.canary.router) else {
            self.observed.canary.delete(decision);
            return Course::default();
        };
        let over = |stage: AgentCanaryStage, time| self.is_over(stage, time);
        let pace = self.settings.pace;
        if self.before.stage == AgentCanaryStage::Draining && !self.leads {
            let under_way = self.heard.as_ref().is_none_or(|(stable, canary)| stable.in_flight + canary.in_flight > 0);
            let settled = over(AgentCanaryStage::Draining, pace.settle);
            if settled && (!under_way || over(AgentCanaryStage::Draining, pace.drain)) {
                self.observed.canary.delete(decision);
                return Course::default();
            }
            let status = self.status(AgentCanaryStage::Draining);
            let message = "waiting for the router's last requests".to_owned();
            return self.course(false, status, (Truth::False, "Draining", message));
        }
        let made = deployment(self.observed, self.plan, tools, Side::Stable);
        if !(is_rolled_out(self.observed.deployment.as_deref(), &made) && self.plays()) {
            let status = self.status(AgentCanaryStage::Returning);
            let message = "waiting for the first Deployment to play the active version".to_owned();
            return self.course(self.leads, status, (Truth::False, "Returning", message));
        }
        let routing = Routing { weight: 0, retiring: true, ..told.clone() };
        let is_told = *told == routing;
        router::tell(self.observed, &routing, decision);
        let left = is_told && self.heard.as_ref().is_some_and(|(_, canary)| canary.in_flight == 0);
        // A router that never answers is not waited for longer than its requests would be.
        if left || (is_told && over(AgentCanaryStage::Returning, pace.drain)) {
            let status = self.status(AgentCanaryStage::Draining);
            let message = "the Service leads to the Pods again".to_owned();
            return self.course(false, status, (Truth::False, "Draining", message));
        }
        let status = self.status(AgentCanaryStage::Returning);
        let message = "waiting for the last requests of the second Deployment".to_owned();
        self.course(self.leads, status, (Truth::False, "Returning", message))
    }

    /// Whether every session is at the version that is wanted, and nobody waits for the other one any more.
    fn has_moved(&self, want: &Want, status: &AgentCanary) -> bool {
        let (Some((stable, _)), Some(told)) = (&self.heard, &self.told) else { return false };
        let all = told.weight == 100 && told.salt == want.version.config_map;
        let waited =
            || status.weight_since.as_ref().is_some_and(|since| self.now >= since.0 + self.settings.pace.drain);
        all && (stable.in_flight == 0 || waited())
    }

    /// The share that the routers were told to give.
    fn weight(&self) -> i32 {
        self.told.as_ref().map_or(0, |told| told.weight)
    }

    /// Whether the first Deployment's Pods play the active version. Those that read it again by themselves were asked; any
    /// other has been replaced.
    fn plays(&self) -> bool {
        let content = names::digest_of_kept(&self.plan.version.config_map);
        !self.plan.reloads() || self.observed.canary.playing.iter().all(|digest| digest.as_deref() == Some(content))
    }

    fn has_settled(&self) -> bool {
        self.leads && self.is_over(AgentCanaryStage::Routing, self.settings.pace.settle)
    }

    /// Whether this stage has lasted so long.
    fn is_over(&self, stage: AgentCanaryStage, time: std::time::Duration) -> bool {
        let since = self.before.since.as_ref().filter(|_| self.before.stage == stage);
        since.is_some_and(|since| self.now >= since.0 + time)
    }

    fn status(&self, stage: AgentCanaryStage) -> AgentCanary {
        let since = self.before.since.clone().filter(|_| self.before.stage == stage);
        let mut status =
            AgentCanary { stage, since: since.or(Some(Time(self.now))), moved: false, ..self.before.clone() };
        if let (Some((stable, canary)), Some(told)) = (&self.heard, &self.told) {
            if status.weight != told.weight || status.weight_since.is_none() {
                status.weight_since = Some(Time(self.now));
            }
            status.weight = told.weight;
            status.window.clone_from(&told.window);
            let all = i64::try_from(stable.requests + canary.requests).unwrap_or(i64::MAX);
            status.stable = stable.status().with_rates(all);
            status.canary = canary.status().with_rates(all);
            let waited =
                status.weight_since.as_ref().is_some_and(|since| self.now >= since.0 + self.settings.pace.drain);
            status.moved = told.weight == 100 && (stable.in_flight == 0 || waited);
        }
        status
    }

    fn course(&self, routed: bool, status: AgentCanary, condition: (Truth, &'static str, String)) -> Course {
        let look_again = Some(self.now + self.settings.pace.poll);
        Course { routed, status: Some(status), condition: Some(condition), look_again }
    }
}

/// What all routers have counted, if all of them act on what they were told.
fn heard(reports: &[Option<Report>], told: &Routing) -> Option<(Tally, Tally)> {
    let mut sums = (Tally::default(), Tally::default());
    for report in reports {
        let report = report.as_ref().filter(|report| report.routing == *told)?;
        sums.0.add(&report.stable);
        sums.1.add(&report.canary);
    }
    (!reports.is_empty()).then_some(sums)
}

/// Whether every Pod of a Deployment is as it should be, and answers.
pub(super) fn is_rolled_out(present: Option<&Deployment>, wanted: &Deployment) -> bool {
    let Some(present) = present else { return false };
    let hash = |deployment: &Deployment| {
        let template = deployment.spec.as_ref()?.template.metadata.as_ref()?;
        template.annotations.as_ref()?.get(names::HASH_ANNOTATION).cloned()
    };
    let status = present.status.clone().unwrap_or_default();
    let replicas = present.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let all = |count: Option<i32>| count.unwrap_or(0) == replicas;
    hash(present) == hash(wanted)
        && status.observed_generation >= present.metadata.generation
        && all(status.replicas)
        && all(status.updated_replicas)
        && all(status.ready_replicas)
}
