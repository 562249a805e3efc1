//! `orrery up`: the embedded plane.
//!
//! Everything runs in this process. The parts reach the API in-process, by their own identities; `kubectl` and
//! Pods reach it over TLS.

mod demo;
mod kubeconfig;
mod machine;
mod parts;
mod product;
mod renewal;
pub mod signals;
mod web;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use apiserver::access::Access;
use apiserver::pki::Pki;
use apiserver::tls::{Limits, Listener};
use apiserver::tokens::Tokens;
use apiserver::user::User;
use apiserver::{ApiServer, Config};
use store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{data_dir, memory, policy, style};
use machine::Machine;
use parts::Parts;
use product::Controllers;
use signals::Signals;
use web::Web;

/// How to serve.
#[derive(clap::Args)]
pub struct Options {
    /// Where to keep everything; by default `orrery` under the XDG data home.
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Port of the Kubernetes API; 0 takes any free one.
    #[arg(long, default_value_t = 7443, value_name = "PORT")]
    api_port: u16,
    /// Port of the web UI and its REST API; 0 takes any free one.
    #[arg(long, default_value_t = 2746, value_name = "PORT")]
    server_port: u16,
    /// Address to listen on. Anything but loopback lets other machines in (with credentials).
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    listen: IpAddr,
    /// Another host name or address that clients use; it goes into the serving certificate.
    #[arg(long = "tls-name", value_name = "NAME")]
    tls_names: Vec<String>,
    /// Show something: an Agent with the real OpenCode and a first Task. It uses your provider when a key such as
    /// `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` is in the environment, else a demo model that plays a script.
    #[arg(long)]
    demo: bool,
    /// Port of the demo model, if it is free.
    #[arg(long, default_value_t = 2747, value_name = "PORT", hide = true)]
    demo_port: u16,
    /// Leave the product's controllers to an `orrery controller` of their own.
    #[arg(long, hide = true)]
    without_controllers: bool,
    #[command(flatten)]
    policy: policy::Options,
    #[command(flatten)]
    machine: machine::Options,
}

/// Runs the plane until Ctrl-C or SIGTERM.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let started = Instant::now();
    let signals = Signals::listen()?;
    let folder = data_dir::resolve(options.data_dir.clone())?;
    data_dir::prepare(&folder)?;
    let store = Store::open(folder.join("store.db"), store::Options::default())?;

    let names = serving_names(&options);
    let pki = Pki::open(&folder.join("pki"), &names, jiff::Timestamp::now())?;
    let tcp = bind(options.listen, options.api_port, "--api-port").await?;
    let listener = Listener::new(tcp, &pki, Limits::default())?;
    let address = reachable(listener.address()?);

    let access = Access::new(store.clone(), Tokens::new(&pki.tokens)?);
    let config = Config::new(store.clone(), access);
    let machine = Machine::new(options.machine.clone(), &folder, config.service_range);
    let pods = machine.access();
    let mount_tokens = machine.is_isolated();
    let api = ApiServer::new(Config { port: address.port(), pods: Some(pods.clone()), mount_tokens, ..config });
    api.start().await?;
    crate::crds::install(client(&api, "installer")).await?;

    let kubeconfig = folder.join("kubeconfig");
    kubeconfig::write(&kubeconfig, address, &pki)?;

    let chosen = options.policy.controllers(policy::Usual { logs: Some(folder.join("logs")), workers: 4 });
    let logs = chosen.logs.clone();
    let product = Controllers::new(client(&api, "controllers"), pods, chosen, machine.images());
    let mut web = server::Options {
        kubeconfig: Some(kubeconfig.clone()),
        logs,
        audit: server::Audit::to(&folder.join("audit.log"))?,
        adopt: telemetry::adopt,
        ..server::Options::new(client(&api, "server"))
    };
    product.register(&mut web.metrics);
    let server = Web::new(web, bind(options.listen, options.server_port, "--server-port").await?);
    let link = server.login_link()?;
    let mut parts = Parts::new(CancellationToken::new());
    let renew = renewal::Renewal { folder: folder.clone(), names, address, listener: listener.renewal() };
    parts.add("certificate renewal", |stop| renew.run(stop));
    parts.add("api", |stop| serve(listener, api.clone(), stop));
    parts.add("workloads", |stop| workloads(client(&api, "workloads"), pki.authority.clone(), stop));
    if !options.without_controllers {
        parts.add("controllers", |stop| product.run(stop));
    }
    if options.demo {
        machine.require_opencode()?;
        let (logs, link) = (folder.join("logs"), server.login_link()?);
        let demo = demo::Demo { client: client(&api, "demo"), logs, link, port: options.demo_port };
        parts.add("demo", |stop| demo.run(stop));
    }
    parts.add("node", |stop| machine.run(client(&api, "node"), address, stop));
    parts.add("server", |stop| server.run(stop));
    parts.add("store", |stop| watch_store(store.clone(), stop));

    welcome(&folder, &kubeconfig, address, &link, started);
    memory::give_back_after_start();
    let result = parts.run_until(signals.stop()).await;
    store.close().await;
    result
}

/// An in-process client with an identity of its own, for one part of the plane.
fn client(api: &ApiServer, part: &str) -> kube::Client {
    kube::Client::new(api.service_as(User::master(format!("system:orrery:{part}"))), "default")
}

async fn serve(listener: Listener, api: ApiServer, stop: CancellationToken) -> anyhow::Result<()> {
    let serving = listener.serve(api.router(), stop.clone());
    // Watches never end by themselves: without this the drain would wait for each of them in vain.
    let closing = async {
        stop.cancelled().await;
        api.close();
    };
    tokio::join!(serving, closing);
    Ok(())
}

async fn workloads(client: kube::Client, root_certificate: String, stop: CancellationToken) -> anyhow::Result<()> {
    let options = workloads::Options { root_certificate, ..workloads::Options::default() };
    workloads::start(client, std::sync::Arc::new(engine::RealClock), options, stop).await;
    Ok(())
}

/// A plane that cannot write is no plane: it ends loudly instead of answering every write with an error.
async fn watch_store(store: Store, stop: CancellationToken) -> anyhow::Result<()> {
    tokio::select! {
        why = store.stopped() => Err(anyhow::anyhow!(why)),
        () = stop.cancelled() => Ok(()),
    }
}

pub async fn bind(address: IpAddr, port: u16, option: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind((address, port)).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "port {port} on {address} is taken; stop what listens there, or choose another with {option} PORT (0 takes any)"
        ),
        _ => anyhow::Error::from(error).context(format!("cannot listen on {address} port {port}")),
    })
}

/// Where clients on this machine reach what listens on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (std::net::Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    }
}

fn serving_names(options: &Options) -> Vec<String> {
    let mut names = options.tls_names.clone();
    // What Pods call it by: the address of the `kubernetes` Service.
    names.push(Ipv4Addr::from(u32::from(apiserver::SERVICE_RANGE.0) + 1).to_string());
    if !options.listen.is_unspecified() {
        names.push(options.listen.to_string());
    }
    names
}

fn welcome(folder: &Path, kubeconfig: &Path, address: SocketAddr, link: &str, started: Instant) {
    let took = started.elapsed().as_millis();
    style::say(format_args!(
        "{} at https://{address}, ready in {took} ms; data in {}\n\n  {}\n  {}\n\n  or open {link}\n\nCtrl-C stops it.",
        style::green("Orrery is up"),
        data_dir::shown(folder),
        style::bold(&format!("export KUBECONFIG={}", data_dir::shown(kubeconfig))),
        style::bold("kubectl get namespaces"),
    ));
}
