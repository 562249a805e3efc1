//! Orrery: one control plane for AI agents, from a laptop to a cluster.
//!
//! This crate only parses arguments, wires the other crates together and prints. Data goes to stdout, words to
//! stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.

mod completion;
mod crds;
mod data_dir;
mod logging;
mod reference;
mod style;
mod up;
mod version;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One control plane for AI agents, from a laptop to a cluster.
#[derive(Parser)]
#[command(name = "orrery", version, arg_required_else_help = true, propagate_version = true)]
struct Arguments {
    /// What to log, as "info" or "warn,apiserver=debug"; logs go to stderr.
    #[arg(long, global = true, env = "ORRERY_LOG", default_value = "warn", value_name = "FILTER")]
    log: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the whole control plane from this machine: API, controllers and Pods.
    Up(up::Options),
    /// Print the custom resource definitions, to install them on a cluster.
    Crds,
    /// Print a completion script for your shell.
    Completion(completion::Options),
    /// Print the version.
    Version,
    /// Print the reference of all commands (docs/reference/cli.md).
    #[command(hide = true)]
    Reference,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = logging::start(&arguments.log).and_then(|()| run(arguments.command));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            style::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(options) => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(up::run(options))
        }
        Command::Crds => crds::run(),
        Command::Completion(options) => completion::run(&options),
        Command::Version => version::run(),
        Command::Reference => reference::run(),
    }
}
