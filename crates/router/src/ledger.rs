//! What the router acts on and what it has counted, behind one lock: a report that says nothing is under way on a side is
//! true of every request that was chosen by an older routing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::omnia::routing::{LATENCY_CLASSES, Report, Routing, Tally};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::choice::{Side, side};

/// The book.
pub(crate) struct Ledger {
    path: PathBuf,
    page: Mutex<Option<Report>>,
    metrics: Metrics,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfSide {
    side: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    side: &'static str,
    outcome: &'static str,
}

#[derive(Clone)]
struct Metrics {
    requests: Family<Outcome, Counter>,
    latency: Family<OfSide, Histogram, fn() -> Histogram>,
    in_flight: Family<OfSide, Gauge>,
    weight: Gauge,
}

fn histogram() -> Histogram {
    #[expect(clippy::cast_precision_loss, reason = "a few minutes in milliseconds")]
    Histogram::new(LATENCY_CLASSES.iter().map(|end| *end as f64 / 1000.0))
}

impl Ledger {
    pub(crate) fn new(path: PathBuf) -> Self {
        let metrics = Metrics {
            requests: Family::default(),
            latency: Family::new_with_constructor(histogram as fn() -> Histogram),
            in_flight: Family::default(),
            weight: Gauge::default(),
        };
        Self { path, page: Mutex::new(None), metrics }
    }

    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("omnia_router");
        let metrics = self.metrics.clone();
        registry.register("requests", "Requests, by side and outcome", metrics.requests);
        registry.register("latency_seconds", "Time to the beginning of the answer, by side", metrics.latency);
        registry.register("in_flight", "Requests and streams under way, by side", metrics.in_flight);
        registry.register("weight_percent", "Share of the new version", metrics.weight);
        registry
    }

    /// Reads the file again. What cannot be read changes nothing.
    pub(crate) fn refresh(&self) {
        let read = std::fs::read(&self.path).map_err(|error| error.to_string());
        let routing = match read.and_then(|text| serde_json::from_slice::<Routing>(&text).map_err(|e| e.to_string())) {
            Ok(routing) => routing,
            Err(error) => return tracing::warn!(error, path = %self.path.display(), "the routing cannot be read"),
        };
        let mut page = self.page.lock();
        match &mut *page {
            Some(report) if report.routing == routing => return,
            Some(report) => {
                if report.routing.window != routing.window {
                    for tally in [&mut report.stable, &mut report.canary] {
                        *tally = Tally { in_flight: tally.in_flight, ..Tally::default() };
                    }
                }
                report.routing = routing.clone();
            }
            None => {
                *page = Some(Report { routing: routing.clone(), stable: Tally::default(), canary: Tally::default() });
            }
        }
        self.metrics.weight.set(routing.weight.into());
        tracing::info!(weight = routing.weight, window = routing.window, "the routing changed");
    }

    pub(crate) fn report(&self) -> Option<Report> {
        self.page.lock().clone()
    }

    pub(crate) fn routing(&self) -> Option<Routing> {
        self.page.lock().as_ref().map(|report| report.routing.clone())
    }

    /// Chooses a side for a session and counts its request as under way.
    pub(crate) fn enter(self: &Arc<Self>, session: &str) -> Option<Entry> {
        let mut page = self.page.lock();
        let report = page.as_mut()?;
        let side = side(&report.routing, session);
        tally(report, side).in_flight += 1;
        self.metrics.in_flight.get_or_create(&OfSide { side: side.as_str() }).inc();
        let (address, retiring) = match side {
            Side::Stable => (report.routing.stable.clone(), report.routing.retiring),
            Side::Canary => (report.routing.canary.clone(), report.routing.retiring),
        };
        Some(Entry { ledger: Arc::clone(self), side, window: report.routing.window.clone(), address, retiring })
    }
}

fn tally(report: &mut Report, side: Side) -> &mut Tally {
    match side {
        Side::Stable => &mut report.stable,
        Side::Canary => &mut report.canary,
    }
}

/// A request under way; it is over when this is dropped.
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    side: Side,
    window: String,
    /// Where it goes.
    pub(crate) address: String,
    /// The client should connect anew for the next one.
    pub(crate) retiring: bool,
}

impl Entry {
    /// The answer has begun, or there will be none.
    pub(crate) fn answered(&self, failed: bool, after: Duration) {
        let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let class = LATENCY_CLASSES.iter().position(|end| milliseconds <= *end).unwrap_or(LATENCY_CLASSES.len());
        self.count(|tally| {
            tally.requests += 1;
            tally.errors += u64::from(failed);
            tally.latency.resize(LATENCY_CLASSES.len() + 1, 0);
            tally.latency[class] += 1;
        });
        let metrics = &self.ledger.metrics;
        let outcome = if failed { "error" } else { "ok" };
        metrics.requests.get_or_create(&Outcome { side: self.side.as_str(), outcome }).inc();
        metrics.latency.get_or_create(&OfSide { side: self.side.as_str() }).observe(after.as_secs_f64());
    }

    /// An answer that had begun broke off.
    pub(crate) fn broke_off(&self) {
        self.count(|tally| tally.errors += 1);
        let broken = Outcome { side: self.side.as_str(), outcome: "broken" };
        self.ledger.metrics.requests.get_or_create(&broken).inc();
    }

    fn count(&self, change: impl FnOnce(&mut Tally)) {
        if let Some(report) = self.ledger.page.lock().as_mut().filter(|report| report.routing.window == self.window) {
            change(tally(report, self.side));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(report) = self.ledger.page.lock().as_mut() {
            tally(report, self.side).in_flight -= 1;
        }
        self.ledger.metrics.in_flight.get_or_create(&OfSide { side: self.side.as_str() }).dec();
    }
}
