//! What the two containers of an `AgentRuntime` run when no other image is named. The work is in the crate `runtime`.

use runtime::Settings;
use tokio_util::sync::CancellationToken;

use crate::up::signals::Signals;

/// The verbs.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Talk to the clients of an agent.
    #[command(hide = true)]
    OmniaFacade,
    /// Think for an agent.
    #[command(hide = true)]
    OmniaRuntime,
}

/// Serves until Ctrl-C or SIGTERM.
pub async fn run(verb: Verb) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let (settings, stop) = (Settings::of_process(), CancellationToken::new());
    let asked = stop.clone();
    let stopping = async move {
        signals.stop().await;
        asked.cancel();
        std::future::pending::<()>().await;
    };
    let serving = async {
        match verb {
            Verb::OmniaFacade => runtime::facade::serve(settings, stop).await,
            Verb::OmniaRuntime => runtime::runtime::serve(settings, stop).await,
        }
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = stopping => Ok(()),
    }
}
