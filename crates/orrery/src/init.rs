//! What init containers and sidecars of the platform's Pods run: `/kubeopencode VERB`, told by environment variables.
//! The work is in the crate `init`; here are the verbs, and what an optional context means.

mod tools;

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
    /// Link the agent's binary, which this machine has already.
    #[command(hide = true)]
    ToolsInit,
}

/// Does it.
pub fn run(verb: &Verb) -> anyhow::Result<()> {
    let env = Env::of_process();
    match verb {
        Verb::ContextInit => Ok(init::context::run(&env)?),
        Verb::GitInit => optional(&env, init::git::init(&env), || init::git::leave_empty(&env)),
        Verb::GitSync => Ok(init::git::sync(&env)?),
        Verb::UrlFetch => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            optional(&env, runtime.block_on(init::url::run(&env)), || Ok(()))
        }
        Verb::ToolsInit => tools::run(&env),
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
