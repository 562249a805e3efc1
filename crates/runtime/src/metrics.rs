//! What is counted.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Counters of one container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    requests: Family<Outcome, Counter>,
    calls: Family<ToolOutcome, Counter>,
    tokens: Family<Direction, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ToolOutcome {
    tool: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

impl Metrics {
    pub(crate) fn answered(&self, outcome: &'static str) {
        self.requests.get_or_create(&Outcome { outcome }).inc();
    }

    pub(crate) fn called(&self, tool: &str, outcome: &'static str) {
        self.calls.get_or_create(&ToolOutcome { tool: tool.to_owned(), outcome }).inc();
    }

    pub(crate) fn used(&self, input: u64, output: u64) {
        self.tokens.get_or_create(&Direction { direction: "input" }).inc_by(input);
        self.tokens.get_or_create(&Direction { direction: "output" }).inc_by(output);
    }

    /// `GET /metrics`.
    pub(crate) fn router(&self) -> Router {
        let mut registry = Registry::with_prefix("omnia");
        registry.register("requests", "Requests, by outcome", self.requests.clone());
        registry.register("tool_calls", "Calls of tools, by tool and outcome", self.calls.clone());
        registry.register("tokens", "Tokens of the model, by direction", self.tokens.clone());
        let registry = Arc::new(registry);
        let encode = move || {
            let registry = registry.clone();
            async move {
                let mut text = String::new();
                let encoded = prometheus_client::encoding::text::encode(&mut text, &registry);
                encoded.map(|()| text).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
            }
        };
        Router::new().route("/metrics", get(encode))
    }
}
