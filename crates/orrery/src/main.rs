//! Orrery: one control plane for AI agents, from a laptop to a cluster.
//!
//! This crate only parses arguments, wires the other crates together and prints. Data goes to stdout, words to
//! stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.

mod agent;
mod cluster;
mod completion;
mod controller;
mod crds;
mod data_dir;
mod deploy;
mod down;
mod image;
mod init;
mod logging;
mod memory;
mod policy;
mod reference;
mod serve;
mod style;
mod up;
mod version;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Objects are trees of many small pieces; see docs/adr/0006.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One control plane for AI agents, from a laptop to a cluster.
#[derive(Parser)]
#[command(name = "orrery", version, arg_required_else_help = true, propagate_version = true)]
struct Arguments {
    /// What to log, as "info" or "warn,kube=debug"; logs go to stderr.
    #[arg(long, global = true, env = "ORRERY_LOG", default_value = "warn,ipstack=error", value_name = "FILTER")]
    log: String,

    /// Send traces to an OpenTelemetry collector, by OTLP over HTTP: its address without /v1/traces.
    #[arg(long, global = true, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL", hide_env_values = true)]
    otlp_endpoint: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the whole control plane from this machine: API, controllers and Pods.
    Up(up::Options),
    /// Run the controllers alone, against the API of a cluster.
    Controller(controller::Options),
    /// Serve the REST API and the web UI alone, for the plane of a kubeconfig or of the cluster this runs in.
    Server(serve::Options),
    /// End what a plane that was stopped left running: its Pods and their network.
    Down(down::Options),
    /// Import, list and remove images that Pods of this machine run.
    Image(image::Options),
    /// Give an agent something to do: creates a Task, prints its log, ends with its result.
    Run(work::run::Options),
    /// Print the log of a Task, also after its Pod is gone.
    Logs(work::logs::Options),
    /// Stop a Task; it ends as Completed, with its log kept.
    Stop(work::control::Named),
    /// Suspend an Agent or a CronTask.
    Suspend(work::control::Kind),
    /// Resume an Agent or a CronTask.
    Resume(work::control::Kind),
    /// Let a CronTask create a Task now.
    Trigger(work::control::Named),
    /// Say why something is not running, and what to do.
    Why(work::why::Options),
    /// Deploy packs of prompts: plan, apply, status, destroy, import, refresh, unlock.
    #[command(subcommand)]
    Deploy(Box<deploy::Verb>),
    /// Print the custom resource definitions, to install them on a cluster.
    Crds,
    /// Print a completion script for your shell.
    Completion(completion::Options),
    /// Print the version.
    Version,
    /// Print the reference of all commands (docs/reference/cli.md).
    #[command(hide = true)]
    Reference,
    #[command(flatten)]
    Init(init::Verb),
    #[command(flatten)]
    Agent(agent::Verb),
}

fn main() -> ExitCode {
    // A Pod's shim is this program again. It forks, so it must come before anything that could start a thread.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "shim") {
        return node::shim::main();
    }
    if std::env::args_os().next().is_some_and(|program| deploy::adapter::is_meant(&program)) {
        return deploy::adapter::main();
    }
    let arguments = Arguments::parse();
    // One provider for every TLS connection of the process; a second call finds it there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Kept until the work is done: what it has not sent yet, it sends when it is dropped.
    let traces = logging::start(&arguments.log, arguments.otlp_endpoint.as_deref());
    match traces.and_then(|_traces| run(arguments.command)) {
        Ok(code) => code,
        Err(error) => {
            style::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(options) => wait(up::run(options))?,
        // One thread: it waits nearly all the time, and each more costs memory.
        Command::Controller(options) => {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(controller::run(options))?;
        }
        Command::Server(options) => wait(serve::run(options))?,
        Command::Down(options) => wait(down::run(options))?,
        Command::Image(options) => image::run(options)?,
        Command::Run(options) => {
            let completed = wait(work::run::run(options))?;
            return Ok(if completed { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Logs(options) => wait(work::logs::run(options))?,
        Command::Stop(options) => wait(work::control::stop(options))?,
        Command::Suspend(options) => wait(work::control::suspend(options, true))?,
        Command::Resume(options) => wait(work::control::suspend(options, false))?,
        Command::Trigger(options) => wait(work::control::trigger(options))?,
        Command::Why(options) => wait(work::why::run(options))?,
        Command::Deploy(verb) => return wait(deploy::run(*verb)),
        Command::Crds => crds::run()?,
        Command::Completion(options) => completion::run(&options)?,
        Command::Version => version::run()?,
        Command::Reference => reference::run()?,
        Command::Init(verb) => return init::run(&verb),
        Command::Agent(verb) => wait(agent::run(verb))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn wait<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    // A Pod's open connection to the outside waits, when it is dropped, for a task that a runtime in shutdown does not run
    // any more: waiting for all of them would never end.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn every_command_can_be_parsed() {
        super::Arguments::command().debug_assert();
    }
}
