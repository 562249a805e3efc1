//! Prometheus metrics of all controllers of a process.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameAnd {
    controller: &'static str,
    kind: &'static str,
}

/// The metrics; cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    reconciles: Family<NameAnd, Counter>,
    durations: Family<Name, Histogram>,
    depth: Family<Name, Gauge>,
    writes: Family<NameAnd, Counter>,
    dropped_events: Family<Name, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets = || Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0]);
        Self {
            reconciles: Family::default(),
            durations: Family::new_with_constructor(buckets),
            depth: Family::default(),
            writes: Family::default(),
            dropped_events: Family::default(),
        }
    }
}

impl Metrics {
    /// Names them for a scrape.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("orrery_controller");
        registry.register("reconciles", "Reconciles by outcome", self.reconciles.clone());
        registry.register("reconcile_seconds", "Time from taking a key to giving it back", self.durations.clone());
        registry.register("queue_depth", "Keys that wait for a worker", self.depth.clone());
        registry.register("writes", "Requests that change something, by verb", self.writes.clone());
        registry.register("dropped_events", "Events that were not recorded", self.dropped_events.clone());
    }

    pub(crate) fn of(&self, controller: &'static str) -> ControllerMetrics {
        ControllerMetrics { all: self.clone(), controller }
    }
}

/// The metrics of one controller.
#[derive(Debug, Clone)]
pub(crate) struct ControllerMetrics {
    all: Metrics,
    controller: &'static str,
}

impl ControllerMetrics {
    pub(crate) fn reconciled(&self, kind: &'static str, took: Duration) {
        self.all.reconciles.get_or_create(&NameAnd { controller: self.controller, kind }).inc();
        self.all.durations.get_or_create(&Name { controller: self.controller }).observe(took.as_secs_f64());
    }

    pub(crate) fn wrote(&self, kind: &'static str) {
        self.all.writes.get_or_create(&NameAnd { controller: self.controller, kind }).inc();
    }

    pub(crate) fn depth(&self, depth: usize) {
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        self.all.depth.get_or_create(&Name { controller: self.controller }).set(depth);
    }

    pub(crate) fn dropped_event(&self) {
        self.all.dropped_events.get_or_create(&Name { controller: self.controller }).inc();
    }
}
