//! Logs, on stderr.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Starts logging what `filter` lets through.
pub fn start(filter: &str) -> anyhow::Result<()> {
    let parsed = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter:?} is not a filter such as \"info\" or \"warn,apiserver=debug\""))?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(!no_colour && std::io::stderr().is_terminal())
        .init();
    Ok(())
}
