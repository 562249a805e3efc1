//! Logs, on stderr, and traces, to a collector.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use telemetry::Exporter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

/// Starts logging what `filter` lets through, and sending traces if there is a collector. Dropping the exporter sends
/// the last of them.
pub fn start(filter: &str, collector: Option<&str>) -> anyhow::Result<Option<Exporter>> {
    let parsed = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter:?} is not a filter such as \"info\" or \"warn,kube=debug\""))?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let words = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(!no_colour && std::io::stderr().is_terminal())
        .with_filter(parsed);
    let collector = collector.filter(|endpoint| !endpoint.is_empty());
    let exporter = collector.map(|endpoint| Exporter::new(endpoint, env!("CARGO_PKG_VERSION"))).transpose()?;
    tracing_subscriber::registry().with(words).with(exporter.as_ref().map(Exporter::layer)).init();
    Ok(exporter)
}
