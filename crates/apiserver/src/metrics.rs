//! Numbers about the server, for Prometheus.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use axum::response::Response;
use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::request::Target;
use crate::respond;
use crate::server::ApiServer;

/// What a request was about. Group and resource are only ever ones that are served, so that nobody
/// can fill the memory with made-up paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Label {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    code: u16,
}

/// The registry and what is counted.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter<u64, AtomicU64>>,
    seconds: Family<Label, Histogram, fn() -> Histogram>,
    objects: Gauge<i64, AtomicI64>,
    revision: Gauge<i64, AtomicI64>,
    history_bytes: Gauge<i64, AtomicI64>,
    watches: Gauge<i64, AtomicI64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        let seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let (objects, revision, history_bytes, watches) =
            (Gauge::default(), Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("apiserver_request", "Requests answered", requests.clone());
        registry.register("apiserver_request_duration_seconds", "Time to the first byte of an answer", seconds.clone());
        registry.register("apiserver_watches", "Watches under way", watches.clone());
        registry.register("orrery_store_objects", "Objects in the store", objects.clone());
        registry.register("orrery_store_revision", "Newest revision of the store", revision.clone());
        registry.register("orrery_store_history_bytes", "Bytes kept only for history", history_bytes.clone());
        Self { registry, requests, seconds, objects, revision, history_bytes, watches }
    }
}

fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 4.0, 10))
}

impl Metrics {
    /// Names a request. `known` says whether the target is served.
    pub fn label(method: &Method, target: Option<&Target>, known: bool) -> Label {
        match target.filter(|_| known) {
            Some(target) => Label {
                verb: target.verb.as_str().to_uppercase(),
                group: target.group.clone(),
                resource: target.resource.clone(),
                subresource: target.subresource.clone(),
            },
            None => Label {
                verb: method.as_str().to_owned(),
                group: String::new(),
                resource: String::new(),
                subresource: String::new(),
            },
        }
    }

    /// Counts an answer.
    pub fn observe(&self, label: &Label, code: StatusCode, elapsed: Duration) {
        let Label { verb, group, resource, subresource } = label.clone();
        self.seconds.get_or_create(label).observe(elapsed.as_secs_f64());
        self.requests.get_or_create(&Answered { verb, group, resource, subresource, code: code.as_u16() }).inc();
    }

    /// Counts a watch for as long as the guard lives.
    pub fn watching(&self) -> Watching {
        self.watches.inc();
        Watching(self.watches.clone())
    }

    /// `/metrics`
    pub fn answer(&self, server: &ApiServer) -> Response {
        let stats = server.store().stats();
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.objects.set(number(stats.objects));
        self.history_bytes.set(number(stats.history_bytes));
        self.revision.set(i64::try_from(stats.revision.0).unwrap_or(i64::MAX));
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => {
                respond::bytes(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
            }
            Err(error) => respond::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

/// A watch that is counted.
pub struct Watching(Gauge<i64, AtomicI64>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.dec();
    }
}
