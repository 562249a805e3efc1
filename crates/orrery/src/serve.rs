//! `orrery server`: the REST API and the web UI for a plane that runs elsewhere.
//!
//! Callers prove who they are with a token that the plane reviews; every request goes on in their name, so the plane's
//! own rules decide. This process needs the right to review tokens, to impersonate, and to list namespaces.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use anyhow::Context as _;
use controllers::logs::Archive;
use server::{Audit, Rate, Server, User};
use tokio_util::sync::CancellationToken;

use crate::up::{bind, signals::Signals};
use crate::{cluster, memory, style};

/// How to serve.
#[derive(clap::Args)]
pub struct Options {
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 2746, value_name = "PORT")]
    server_port: u16,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    listen: IpAddr,
    /// Where the controllers keep logs of Pods that are gone.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// File that gets a line for every change: who, what, from where.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Requests a second that one caller may make.
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    rate_limit: u32,
    /// Let callers without credentials in as this user. The plane's rules for that user apply to anybody.
    #[arg(long, value_name = "USER")]
    anonymous: Option<String>,
    /// Every request comes through a proxy: take the caller's address from the X-Forwarded-For that it sends.
    #[arg(long)]
    behind_proxy: bool,
    #[command(flatten)]
    cluster: cluster::Options,
}

/// Runs the server until Ctrl-C or SIGTERM.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let cluster = options.cluster.connect().await?;
    let version = cluster.client.apiserver_version().await.context("the plane does not answer")?;
    let audit = match &options.audit_log {
        Some(file) => Audit::to(file).with_context(|| format!("cannot write {}", file.display()))?,
        None => Audit::default(),
    };
    let server = Server::new(server::Options {
        logs: options.log_dir.or(cluster.logs).map(|directory| Archive { directory }),
        anonymous: options.anonymous.map(|name| User { name, ..User::default() }),
        rate: Rate { per_second: options.rate_limit, burst: options.rate_limit.saturating_mul(5) },
        behind_proxy: options.behind_proxy,
        audit,
        adopt: telemetry::adopt,
        ..server::Options::new(cluster.client)
    });
    let listener = bind(options.listen, options.server_port, "--server-port").await?;
    let address = listener.local_addr()?;
    style::say(format_args!(
        "{} at http://{address} for a plane of version {}.{}\n\nSign in with a token: kubectl create token NAME\nCtrl-C stops it.",
        style::green("Orrery's server is up"),
        version.major,
        version.minor,
    ));
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        signals.stop().await;
        asked.cancel();
    });
    memory::give_back_after_start();
    server.run(listener, stop).await.context("the server ended")
}
