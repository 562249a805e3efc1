//! What init containers and sidecars of the platform's Pods run: `/kubeopencode VERB`, told by environment variables.
//!
//! The contract is the original's, so that either system image serves. Where the original went on with a warning,
//! these stop with an error that names the variable, unless the context is optional.

mod context;
mod fetch;
mod files;
mod git;
mod sync;
mod tools;

use std::path::PathBuf;

use anyhow::Context as _;

/// The verbs.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Copy context files and directories into the workspace.
    #[command(hide = true)]
    ContextInit,
    /// Clone a repository.
    #[command(hide = true)]
    GitInit,
    /// Keep a clone up to date.
    #[command(hide = true)]
    GitSync,
    /// Fetch a file.
    #[command(hide = true)]
    UrlFetch,
    /// Link the agent's binary, which this machine has already.
    #[command(hide = true)]
    ToolsInit,
}

/// Does it.
pub fn run(verb: &Verb) -> anyhow::Result<()> {
    match verb {
        Verb::ContextInit => context::run(),
        Verb::GitInit => optional(git::run(), git::leave_empty),
        Verb::GitSync => sync::run(),
        Verb::UrlFetch => optional(fetch::run(), || Ok(())),
        Verb::ToolsInit => tools::run(),
    }
}

/// An optional context that cannot be had is said, and nothing else.
fn optional(result: anyhow::Result<()>, instead: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if is_set("CONTEXT_OPTIONAL") => {
            crate::style::say(format_args!("this context is optional, so the Task goes on without it: {error:#}"));
            instead()
        }
        result => result,
    }
}

/// A variable that must be there.
fn required(name: &str) -> anyhow::Result<String> {
    variable(name).with_context(|| format!("the environment variable {name} is not set"))
}

/// A variable that may be there; an empty one is not.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_set(name: &str) -> bool {
    variable(name).is_some_and(|value| value == "true" || value == "1")
}

fn path(name: &str, usual: &str) -> PathBuf {
    variable(name).unwrap_or_else(|| usual.to_owned()).into()
}
