//! Numbers for Prometheus: Tasks by phase, how long they wait and run, what they cost, how full Agents are, how late
//! schedules are. They come from a watch of the server's own, so nobody has to ask for them to be counted.

use std::collections::HashMap;

use api::kubeopencode::names::{CRON_TASK_LABEL, SCHEDULED_ANNOTATION};
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::kinds::Kind;

const SECONDS: [f64; 14] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InPhase {
    namespace: String,
    phase: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfAgent {
    namespace: String,
    agent: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNamespace {
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tokens {
    namespace: String,
    direction: &'static str,
}

/// The numbers and what they are counted from.
pub struct Metrics {
    registry: Registry,
    seen: Mutex<Seen>,
    tasks: Family<InPhase, Gauge>,
    durations: Family<InPhase, Histogram, fn() -> Histogram>,
    waits: Family<OfNamespace, Histogram, fn() -> Histogram>,
    skew: Family<OfNamespace, Histogram, fn() -> Histogram>,
    running: Family<OfAgent, Gauge>,
    queued: Family<OfAgent, Gauge>,
    capacity: Family<OfAgent, Gauge>,
    ready: Family<OfAgent, Gauge>,
    tokens: Family<Tokens, Counter>,
    cost: Family<OfNamespace, Counter<f64, std::sync::atomic::AtomicU64>>,
}

#[derive(Default)]
struct Seen {
    tasks: HashMap<String, DynamicObject>,
    agents: HashMap<String, DynamicObject>,
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    /// Adds ours to what others have registered.
    pub fn new(mut registry: Registry) -> Self {
        let timed = || Family::new_with_constructor(histogram as fn() -> Histogram);
        let metrics = Self {
            seen: Mutex::default(),
            tasks: Family::default(),
            durations: Family::new_with_constructor(histogram as fn() -> Histogram),
            waits: timed(),
            skew: timed(),
            running: Family::default(),
            queued: Family::default(),
            capacity: Family::default(),
            ready: Family::default(),
            tokens: Family::default(),
            cost: Family::default(),
            registry: Registry::default(),
        };
        registry.register("orrery_tasks", "Tasks by phase", metrics.tasks.clone());
        registry.register(
            "orrery_task_duration_seconds",
            "From start to end, by how it ended",
            metrics.durations.clone(),
        );
        registry.register("orrery_task_wait_seconds", "From creation to start", metrics.waits.clone());
        registry.register(
            "orrery_cron_skew_seconds",
            "From the instant a run was due to its Task",
            metrics.skew.clone(),
        );
        registry.register("orrery_agent_running_tasks", "Tasks that run on an Agent", metrics.running.clone());
        registry.register("orrery_agent_queued_tasks", "Tasks that wait for an Agent", metrics.queued.clone());
        registry.register("orrery_agent_max_tasks", "Most Tasks at once; 0 is no limit", metrics.capacity.clone());
        registry.register("orrery_agent_ready", "1 when the Agent's server answers", metrics.ready.clone());
        registry.register("orrery_task_tokens", "Tokens that finished Tasks used", metrics.tokens.clone());
        registry.register("orrery_task_cost_dollars", "What finished Tasks cost", metrics.cost.clone());
        Self { registry, ..metrics }
    }

    /// Counts until told to stop.
    pub async fn follow(&self, client: &Client, stop: CancellationToken) {
        let all = |plural| {
            let kind = Kind::by_plural(plural).expect("the kind is in the table");
            watch(kind.api(client, None), watcher::Config::default()).default_backoff().boxed()
        };
        let tasks = all("tasks").map(|event| (true, event));
        let agents = all("agents").map(|event| (false, event));
        let mut events = stream::select(tasks, agents);
        loop {
            let (of_task, event) = tokio::select! {
                event = events.next() => match event { Some(event) => event, None => return },
                () = stop.cancelled() => return,
            };
            match event {
                Ok(event) => self.take(of_task, event),
                Err(error) => tracing::debug!(%error, "counting pauses"),
            }
        }
    }

    fn take(&self, of_task: bool, event: Event<DynamicObject>) {
        let mut seen = self.seen.lock();
        let objects = if of_task { &mut seen.tasks } else { &mut seen.agents };
        match event {
            Event::Init => objects.clear(),
            Event::InitApply(object) => {
                objects.insert(object.uid().unwrap_or_default(), object);
            }
            Event::Apply(object) => {
                let before = objects.insert(object.uid().unwrap_or_default(), object.clone());
                drop(seen);
                if of_task {
                    self.changed(before.as_ref(), &object);
                }
            }
            Event::Delete(object) => {
                objects.remove(&object.uid().unwrap_or_default());
            }
            Event::InitDone => {}
        }
    }

    /// Measures what has just happened to a Task, once: what was so before it was looked at is not news.
    fn changed(&self, before: Option<&DynamicObject>, task: &DynamicObject) {
        let namespace = OfNamespace { namespace: task.namespace().unwrap_or_default() };
        let created = task.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let had = |field| before.is_some_and(|before| time(before, field).is_some());
        if let (Some(start), Some(created), false) = (time(task, "startTime"), created, had("startTime")) {
            self.waits.get_or_create(&namespace).observe(seconds(created, start));
        }
        if before.is_none()
            && let (Some(due), Some(created)) = (scheduled(task), created)
        {
            self.skew.get_or_create(&namespace).observe(seconds(due, created));
        }
        if let (Some(start), Some(end), false) =
            (time(task, "startTime"), time(task, "completionTime"), had("completionTime"))
        {
            let label = InPhase { namespace: namespace.namespace.clone(), phase: phase(task).to_owned() };
            self.durations.get_or_create(&label).observe(seconds(start, end));
        }
        let summary = |object: &DynamicObject| object.data["status"]["session"]["summary"].clone();
        let (old, new) = (before.map(summary).unwrap_or_default(), summary(task));
        if old != new {
            for direction in ["input", "output", "reasoning", "cache"] {
                let used = |summary: &serde_json::Value| summary["tokenUsage"][direction].as_u64().unwrap_or_default();
                let label = Tokens { namespace: namespace.namespace.clone(), direction };
                self.tokens.get_or_create(&label).inc_by(used(&new).saturating_sub(used(&old)));
            }
            let paid = |summary: &serde_json::Value| summary["cost"].as_str().and_then(|cost| cost.parse::<f64>().ok());
            let more = paid(&new).unwrap_or_default() - paid(&old).unwrap_or_default();
            self.cost.get_or_create(&namespace).inc_by(more.max(0.0));
        }
    }

    /// What a scrape gets.
    fn text(&self) -> Result<String> {
        self.gauge();
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|error| {
            Error::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "Encoding", error.to_string())
        })?;
        Ok(text)
    }

    /// Sets what is true now, and forgets what is gone.
    fn gauge(&self) {
        let seen = self.seen.lock();
        self.tasks.clear();
        for gauges in [&self.running, &self.queued, &self.capacity, &self.ready] {
            gauges.clear();
        }
        for agent in seen.agents.values() {
            let label = OfAgent { namespace: agent.namespace().unwrap_or_default(), agent: agent.name_any() };
            let most = agent.data["spec"]["maxConcurrentTasks"].as_i64().unwrap_or_default();
            self.capacity.get_or_create(&label).set(most);
            self.ready.get_or_create(&label).set(i64::from(agent.data["status"]["ready"] == true));
            self.running.get_or_create(&label).set(0);
            self.queued.get_or_create(&label).set(0);
        }
        for task in seen.tasks.values() {
            let namespace = task.namespace().unwrap_or_default();
            let phase = phase(task);
            self.tasks.get_or_create(&InPhase { namespace: namespace.clone(), phase: phase.to_owned() }).inc();
            let Some(agent) = task.data["spec"]["agentRef"]["name"].as_str() else { continue };
            let label = OfAgent { namespace, agent: agent.to_owned() };
            match phase {
                "Running" => _ = self.running.get_or_create(&label).inc(),
                "Queued" => _ = self.queued.get_or_create(&label).inc(),
                _ => {}
            }
        }
    }
}

fn phase(task: &DynamicObject) -> &str {
    task.data["status"]["phase"].as_str().unwrap_or("Pending")
}

fn time(task: &DynamicObject, field: &str) -> Option<Timestamp> {
    task.data["status"][field].as_str()?.parse().ok()
}

fn scheduled(task: &DynamicObject) -> Option<Timestamp> {
    task.labels().get(CRON_TASK_LABEL)?;
    Timestamp::from_second(task.annotations().get(SCHEDULED_ANNOTATION)?.parse().ok()?).ok()
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

/// `GET /metrics`, for whoever may read that path by the cluster's rules: it names every namespace.
pub async fn scrape(State(app): State<App>, Extension(caller): Extension<Caller>) -> Result<Response> {
    if !caller.may_read("/metrics").await? {
        return Err(caller.forbidden("get /metrics"));
    }
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media)], app.metrics.text()?).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(name: &str, status: &serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
            "metadata": {
                "name": name, "namespace": "a", "uid": name, "creationTimestamp": "2026-01-01T00:00:02Z",
                "labels": {CRON_TASK_LABEL: "c"}, "annotations": {SCHEDULED_ANNOTATION: "1767225600"},
            },
            "spec": {"agentRef": {"name": "r"}}, "status": status,
        }))
        .expect("a Task")
    }

    /// A panel that asks for a number nobody counts stays empty for ever.
    #[test]
    fn the_dashboard_asks_for_what_is_there() {
        let dashboard = include_str!("../../../docs/grafana/orrery.json");
        let ours = include_str!("metrics.rs");
        let controllers = include_str!("../../engine/src/metrics.rs");
        let words = dashboard.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let asked: std::collections::BTreeSet<&str> = words.filter(|word| word.starts_with("orrery_")).collect();
        assert!(asked.len() > 8, "{asked:?}");
        for metric in asked {
            let name =
                ["_bucket", "_count", "_total"].iter().find_map(|end| metric.strip_suffix(end)).unwrap_or(metric);
            let of_controllers = name.strip_prefix("orrery_controller_").unwrap_or("nothing");
            let known = ours.contains(&format!("\"{name}\"")) || controllers.contains(&format!("\"{of_controllers}\""));
            assert!(known, "{metric}");
        }
    }

    #[test]
    fn a_task_is_measured_once_and_gauged_as_it_is() {
        let metrics = Metrics::new(Registry::default());
        metrics.take(true, Event::Init);
        metrics.take(true, Event::InitApply(task("old", &json!({"phase": "Completed", "startTime": "2026-01-01T00:00:03Z", "completionTime": "2026-01-01T00:00:04Z"}))));
        metrics.take(true, Event::InitDone);
        metrics.take(true, Event::Apply(task("new", &json!({}))));
        let running = json!({"phase": "Running", "startTime": "2026-01-01T00:00:05Z"});
        metrics.take(true, Event::Apply(task("new", &running)));
        metrics.take(true, Event::Apply(task("new", &running)));
        let text = metrics.text().expect("it can be encoded");
        assert!(text.contains("orrery_tasks{namespace=\"a\",phase=\"Running\"} 1"), "{text}");
        assert!(text.contains("orrery_tasks{namespace=\"a\",phase=\"Completed\"} 1"), "{text}");
        assert!(text.contains("orrery_task_wait_seconds_count{namespace=\"a\"} 1"), "{text}");
        assert!(text.contains("orrery_task_wait_seconds_sum{namespace=\"a\"} 3.0"), "{text}");
        assert!(text.contains("orrery_cron_skew_seconds_sum{namespace=\"a\"} 2.0"), "{text}");
        assert!(text.contains("orrery_agent_running_tasks{namespace=\"a\",agent=\"r\"} 1"), "{text}");
        assert!(!text.contains("orrery_task_duration_seconds_count"), "{text}");
        let done = json!({"phase": "Failed", "startTime": "2026-01-01T00:00:05Z", "completionTime": "2026-01-01T00:00:15Z", "session": {"summary": {"cost": "0.25", "tokenUsage": {"input": 7}}}});
        metrics.take(true, Event::Apply(task("new", &done)));
        let text = metrics.text().expect("it can be encoded");
        assert!(text.contains("orrery_task_duration_seconds_sum{namespace=\"a\",phase=\"Failed\"} 10.0"), "{text}");
        assert!(text.contains("orrery_task_cost_dollars_total{namespace=\"a\"} 0.25"), "{text}");
        assert!(text.contains("orrery_task_tokens_total{namespace=\"a\",direction=\"input\"} 7"), "{text}");
    }
}
