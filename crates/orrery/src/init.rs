//! What init containers and sidecars of the platform's Pods run: `/kubeopencode VERB`, told by environment variables.
//! The work is in the crate `init`; here are the verbs, and what an optional context means.

mod tools;

use std::process::ExitCode;

use init::Env;

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
    /// Run the agent for a Task, and tell what became of it.
    #[command(hide = true)]
    AgentRun {
        /// The agent's command.
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Take the files that Tasks bring to an Agent's server.
    #[command(hide = true)]
    ContextServe,
    /// Copy this program to where the agent's container finds it.
    #[command(hide = true)]
    SelfInit,
    /// Link the agent's binary, which this machine has already.
    #[command(hide = true)]
    ToolsInit,
}

/// Does it; the answer is the exit code.
pub fn run(verb: &Verb) -> anyhow::Result<ExitCode> {
    let env = Env::of_process();
    if let Verb::AgentRun { words } = verb {
        let code = runtime()?.block_on(init::agent::run(&env, words))?;
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    }
    prepare(verb, &env).map(|()| ExitCode::SUCCESS)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn prepare(verb: &Verb, env: &Env) -> anyhow::Result<()> {
    match verb {
        Verb::AgentRun { .. } => Ok(()),
        Verb::ContextServe => runtime()?.block_on(init::delivery::run(env)).map_err(anyhow::Error::from_boxed),
        Verb::SelfInit => tools::copy_self(env),
        Verb::ContextInit => Ok(init::context::run(env)?),
        Verb::GitInit => optional(env, init::git::init(env), || init::git::leave_empty(env)),
        Verb::GitSync => Ok(init::git::sync(env)?),
        Verb::UrlFetch => optional(env, runtime()?.block_on(init::url::run(env)), || Ok(())),
        Verb::ToolsInit => tools::run(env),
    }
}

/// An optional context that cannot be had is said, and nothing else.
fn optional<E>(env: &Env, result: Result<(), E>, instead: impl FnOnce() -> Result<(), E>) -> anyhow::Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match result {
        Err(error) if env.flag("CONTEXT_OPTIONAL") => {
            let error = anyhow::Error::from(error);
            crate::style::say(format_args!("this context is optional, so the Task goes on without it: {error:#}"));
            Ok(instead()?)
        }
        result => Ok(result?),
    }
}
