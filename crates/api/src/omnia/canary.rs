//! A canary: a new version of a pack gets a share of the sessions before it gets all of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;

/// How a new version gets its share of the sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.promote) || !has(self.abort) || self.promote != self.abort")
        .message("promote and abort name the same version: remove one of them")
        .field_path(".abort"),
)]
pub struct Canary {
    /// The share of the sessions, in percent, that the new version begins with; 100 makes it active. Changing it while a
    /// canary runs changes the share at once.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 100))]
    pub weight: i32,
    /// How much the share grows with each step, in percent. Without it and without `analysis` the share changes only when
    /// somebody changes `weight`; with `analysis` it is 10 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub step_weight: Option<i32>,
    /// How long a step takes at least.
    #[serde(default = "five_minutes")]
    pub interval: Duration,
    /// A canary that makes no step for so long is aborted; without it, it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<Duration>,
    /// What must hold for a step. Without it only time must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// The version that is to become active now, whatever its share and its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub promote: Option<String>,
    /// The version whose canary is to end; it is not tried again while it is named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub abort: Option<String>,
    /// The header that names a request's session.
    #[serde(default = "session_header")]
    #[schemars(length(min = 1, max = 128), pattern(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))]
    pub session_header: String,
    /// The cookie that names a request's session when the header does not; clients that bring neither are given it.
    #[serde(default = "session_cookie")]
    #[schemars(length(min = 1, max = 128), pattern(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))]
    pub session_cookie: String,
}

impl Default for Canary {
    fn default() -> Self {
        Self {
            weight: ten(),
            step_weight: None,
            interval: five_minutes(),
            progress_deadline: None,
            analysis: None,
            promote: None,
            abort: None,
            session_header: session_header(),
            session_cookie: session_cookie(),
        }
    }
}

impl Canary {
    /// How much the share grows by itself, if it does.
    pub fn step(&self) -> Option<i32> {
        self.step_weight.or_else(|| self.analysis.is_some().then(ten))
    }
}

fn ten() -> i32 {
    10
}

fn five_minutes() -> Duration {
    Duration("5m".into())
}

fn session_header() -> String {
    super::routing::SESSION_HEADER.into()
}

fn session_cookie() -> String {
    "omnia-session".into()
}

/// What must hold for a step of a canary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.maxErrorRate) || has(self.maxLatency)")
        .message("maxErrorRate or maxLatency is required: an analysis that looks at nothing would pass everything"),
)]
pub struct Analysis {
    /// Requests that the new version must have answered in a step before anything is said of it. While they are fewer the
    /// canary is inconclusive: it pauses, and is never promoted.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1))]
    pub min_requests: i64,
    /// The most requests of the new version that may fail in a step, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_error_rate: Option<f64>,
    /// The longest that 95 of 100 requests to the new version may wait for the beginning of their answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency: Option<Duration>,
    /// After so many steps in a row that did not hold the canary is aborted.
    #[serde(default = "three")]
    #[schemars(range(min = 1))]
    pub consecutive_failures: i32,
}

fn hundred() -> i64 {
    100
}

fn three() -> i32 {
    3
}

/// How far a canary is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CanaryStage {
    /// Its agents are made ready; the share is not given yet.
    #[default]
    Preparing,
    /// It has its share.
    Running,
    /// It has every session; the others' last requests are waited for before it becomes active.
    Promoting,
}

/// What the last look at a canary's numbers said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// They hold.
    Passed,
    /// They do not.
    Failed,
    /// They are too few.
    Inconclusive,
}

/// What is known about a canary that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// The immutable `ConfigMap` that holds the new content.
    #[serde(default)]
    pub config_map: String,
    /// How far it is.
    #[serde(default)]
    pub stage: CanaryStage,
    /// The `weight` of the spec that the present share came from.
    #[serde(default)]
    pub declared_weight: i32,
    /// Which step it is at; the numbers of both sides are of this step alone.
    #[serde(default)]
    pub step: i32,
    /// When every agent had this step's share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub step_started: Option<Time>,
    /// When the share last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_progress: Option<Time>,
    /// Steps in a row that did not hold.
    #[serde(default)]
    pub failures: i32,
    /// What the last look at the numbers said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Agents that have the present share.
    #[serde(default)]
    pub agents_ready: i32,
    /// Agents that should have it.
    #[serde(default)]
    pub agents: i32,
    /// The active version, in this step.
    #[serde(default)]
    pub stable: SideStatus,
    /// The new version, in this step.
    #[serde(default)]
    pub canary: SideStatus,
}

/// What was measured on one side of a canary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SideStatus {
    /// Requests that were answered or failed.
    #[serde(default)]
    pub requests: i64,
    /// Those that failed: an answer of 500 or more, none at all, or one that broke off.
    #[serde(default)]
    pub errors: i64,
    /// Its part of all requests, in percent.
    #[serde(default)]
    pub share: f64,
    /// Its failed part, in percent.
    #[serde(default)]
    pub error_rate: f64,
    /// Half of the requests waited at most so many milliseconds for the beginning of their answer.
    #[serde(default)]
    pub latency_p50_ms: i64,
    /// 95 of 100 requests waited at most so many.
    #[serde(default)]
    pub latency_p95_ms: i64,
    /// Requests and streams under way.
    #[serde(default)]
    pub in_flight: i64,
}

/// A version that was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedVersion {
    /// Its version.
    pub version: String,
    /// The immutable `ConfigMap` that holds its content.
    pub config_map: String,
    /// Why, in one word: `Aborted`, `AnalysisFailed` or `ProgressDeadlineExceeded`.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// When.
    #[schemars(schema_with = "crate::schema::time")]
    pub time: Time,
}

/// How far an agent is with its pack's canary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentCanaryStage {
    /// The second Deployment and the router are made ready.
    #[default]
    Preparing,
    /// The router stands behind the Service.
    Routing,
    /// It is over: every session goes back to the first Deployment.
    Returning,
    /// The Service leads to the Pods again; the router's last requests are waited for.
    Draining,
}

/// An agent's part of its pack's canary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCanary {
    /// The new version.
    #[serde(default)]
    pub version: String,
    /// The immutable `ConfigMap` that holds its content.
    #[serde(default)]
    pub config_map: String,
    /// How far it is.
    #[serde(default)]
    pub stage: AgentCanaryStage,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub since: Option<Time>,
    /// The share of the new version, in percent, that every router acts on.
    #[serde(default)]
    pub weight: i32,
    /// Which content and step the numbers are of.
    #[serde(default)]
    pub window: String,
    /// Since when every router has acted on this share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub weight_since: Option<Time>,
    /// Whether every session has the new version and nobody waits for the old one any more.
    #[serde(default)]
    pub moved: bool,
    /// The active version.
    #[serde(default)]
    pub stable: SideStatus,
    /// The new version.
    #[serde(default)]
    pub canary: SideStatus,
}
