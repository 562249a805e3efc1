//! What a router is told (`routing.json`, written by the controller) and what it answers when it is asked.

use serde::{Deserialize, Serialize};

use super::canary::SideStatus;

/// The header that names a session, and that the router gives to both sides whatever named it before.
pub const SESSION_HEADER: &str = "X-Omnia-Session";
/// The header by which an agent knows that a request came through the router.
pub const ROUTED_HEADER: &str = "X-Omnia-Routed";
/// The file.
pub const ROUTING_KEY: &str = "routing.json";

/// Where the sessions go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// Where the active version is, as host:port.
    pub stable: String,
    /// Where the new version is, as host:port.
    pub canary: String,
    /// The share of the new version, in percent.
    pub weight: i32,
    /// Goes into the hash, so that not always the same sessions come first.
    pub salt: String,
    /// What is counted together: another word, and counting begins again.
    pub window: String,
    /// The header that names a session.
    pub session_header: String,
    /// The cookie that names a session.
    pub session_cookie: String,
    /// The router is about to go: clients are told to connect anew.
    #[serde(default)]
    pub retiring: bool,
}

/// What is counted together: one step of one content.
pub fn window(config_map: &str, step: i32) -> String {
    format!("{config_map}/{step}")
}

/// What a router has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What it acts on.
    pub routing: Routing,
    /// What it saw of the active version.
    pub stable: Tally,
    /// What it saw of the new version.
    pub canary: Tally,
}

/// Upper ends of the latency classes, in milliseconds; one more class takes the rest.
pub const LATENCY_CLASSES: [u64; 15] =
    [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 20_000, 30_000, 60_000, 120_000];

/// What stands for a latency of the class that has no end.
const LONGER: u64 = 120_001;

/// What was counted on one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Requests that were answered or failed, in this window.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// Requests by the class of their latency.
    pub latency: Vec<u64>,
    /// Requests and streams under way, of any window.
    pub in_flight: u64,
}

impl Tally {
    /// Adds what another router counted.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.in_flight += other.in_flight;
        self.latency.resize(self.latency.len().max(other.latency.len()), 0);
        for (sum, more) in self.latency.iter_mut().zip(&other.latency) {
            *sum += more;
        }
    }

    /// The upper end of the class that this part (0 to 1) of the requests fits into.
    fn quantile(&self, part: f64) -> i64 {
        let all: u64 = self.latency.iter().sum();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts"
        )]
        let wanted = (all as f64 * part).ceil() as u64;
        let mut sum = 0;
        for (index, count) in self.latency.iter().enumerate() {
            sum += count;
            if all > 0 && sum >= wanted.max(1) {
                // What is in the last class was longer than any limit that ends at the class before.
                let end = LATENCY_CLASSES.get(index).copied().unwrap_or(LONGER);
                return i64::try_from(end).unwrap_or(i64::MAX);
            }
        }
        0
    }

    /// As the status says it, without the part of all requests.
    pub fn status(&self) -> SideStatus {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        SideStatus {
            requests: number(self.requests),
            errors: number(self.errors),
            in_flight: number(self.in_flight),
            latency_p50_ms: self.quantile(0.5),
            latency_p95_ms: self.quantile(0.95),
            ..SideStatus::default()
        }
        .with_rates(0)
    }
}

impl SideStatus {
    /// With the parts worked out, where all sides together had `all` requests.
    #[must_use]
    pub fn with_rates(mut self, all: i64) -> Self {
        self.share = percent(self.requests, all);
        self.error_rate = percent(self.errors, self.requests);
        self
    }
}

/// A part in percent, to two decimals.
fn percent(part: i64, all: i64) -> f64 {
    if all == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    let exact = part as f64 * 10_000.0 / all as f64;
    exact.round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_quantiles() {
        let mut sum = Tally::default();
        let mut latency = vec![0; LATENCY_CLASSES.len() + 1];
        latency[1] = 94;
        latency[4] = 6;
        sum.add(&Tally { requests: 100, errors: 3, latency, in_flight: 1 });
        sum.add(&Tally::default());
        let status = sum.status().with_rates(1000);
        assert_eq!((status.requests, status.errors, status.in_flight), (100, 3, 1));
        assert_eq!((status.latency_p50_ms, status.latency_p95_ms), (10, 100));
        assert!((status.share - 10.0).abs() < f64::EPSILON && (status.error_rate - 3.0).abs() < f64::EPSILON);
        assert_eq!(Tally::default().status(), SideStatus::default());
    }
}
