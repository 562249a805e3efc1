//! What the two containers of an `AgentRuntime` run when no other image is named, and the router of a canary. The work is
//! in the crates `runtime` and `router`.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use runtime::Settings;
use tokio_util::sync::CancellationToken;

use crate::up::signals::Signals;

/// The verbs.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Talk to the clients of an agent.
    #[command(name = "omnia-facade", hide = true)]
    Facade,
    /// Think for an agent.
    #[command(name = "omnia-runtime", hide = true)]
    Runtime,
    /// Split the sessions of an agent between two versions of its pack.
    #[command(name = "omnia-router", hide = true)]
    Router(Router),
    /// Ask the MCP server in `MCP_PROGRAM` what tools it has.
    #[command(name = "mcp-tools", hide = true)]
    McpTools,
}

/// How the router serves.
#[derive(clap::Args)]
pub struct Router {
    /// Where clients connect.
    #[arg(long, env = "OMNIA_ROUTER_PORT", default_value_t = 8080, value_name = "PORT")]
    port: u16,
    /// Where health, numbers and reports are had.
    #[arg(long, env = "OMNIA_HEALTH_PORT", default_value_t = 8081, value_name = "PORT")]
    health_port: u16,
    /// The file that says where requests go.
    #[arg(long, env = "OMNIA_ROUTING_PATH", value_name = "FILE")]
    routing: std::path::PathBuf,
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
            Verb::Facade => runtime::facade::serve(settings, stop).await?,
            Verb::Runtime => runtime::runtime::serve(settings, stop).await?,
            Verb::Router(Router { port, health_port, routing }) => {
                router::serve(router::Options { port, health_port, routing }, stop).await?;
            }
            Verb::McpTools => list_tools().await?,
        }
        anyhow::Ok(())
    };
    tokio::select! {
        served = serving => served,
        () = stopping => Ok(()),
    }
}

/// How long a program may take to say what tools it has: it may have to be fetched first.
const PATIENCE: Duration = Duration::from_mins(2);

/// Asks a program, and tells the controller that reads our log.
async fn list_tools() -> anyhow::Result<()> {
    let program = std::env::var("MCP_PROGRAM").context("MCP_PROGRAM names no program")?;
    let program = serde_json::from_str(&program).context("MCP_PROGRAM cannot be read")?;
    let listed = tools::Client::new()?.mcp_list(&tools::mcp::Source::Stdio(program), PATIENCE).await;
    std::io::stdout().write_all(tools::mcp::report::write(listed).as_bytes())?;
    Ok(())
}
