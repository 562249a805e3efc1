//! `orrery controller`: the product's controllers alone, for a cluster that has its own API.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use controllers::ask::{Dial, Dialled, PortForward};
use controllers::kubeopencode::session::HttpSessions;
use controllers::omnia::tool_registry::discover::Asker;
use controllers::pod::{Linked, Tools};
use engine::{Election, Engine};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::up::signals::Signals;
use crate::{cluster, memory, policy, style};

/// The name of the lease that one of several controllers holds.
const LEASE: &str = "orrery-controller";

/// How to run them.
#[derive(clap::Args)]
pub struct Options {
    /// Look only at these namespaces, separated by commas; at all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAMESPACES")]
    namespaces: Vec<String>,
    /// Work only while no other controller does: the lease is kept in the namespace of --namespace.
    #[arg(long)]
    leader_elect: bool,
    /// Serve /metrics, /healthz and /readyz here, e.g. 0.0.0.0:8080.
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,
    /// Image of the containers that prepare contexts, unless KubeOpenCodeConfig names another.
    #[arg(long, value_name = "IMAGE")]
    system_image: Option<String>,
    /// Image with this program, which runs beside the agents: without it a Task can bring no files to an Agent, the
    /// sessions of template Tasks are not read, and packs have no canaries.
    #[arg(long, value_name = "IMAGE")]
    helper_image: Option<String>,
    /// The plane is an `orrery up`: the agents' programs are on its machine already and are not copied for each Pod.
    #[arg(long)]
    embedded: bool,
    /// The cluster's own DNS domain.
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    cluster_domain: String,
    #[command(flatten)]
    policy: policy::Options,
    #[command(flatten)]
    cluster: cluster::Options,
}

/// Runs until Ctrl-C or SIGTERM.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let cluster = options.cluster.connect().await?;
    let version = cluster.client.apiserver_version().await.context("the cluster does not answer")?;
    let mut chosen = options.policy.controllers(policy::Usual { logs: None, workers: 1 });
    chosen.engine.namespaces.clone_from(&options.namespaces);
    chosen.engine.instance = format!("orrery-controller-{}", std::process::id());
    let system = &mut chosen.policy.system;
    if options.embedded {
        system.tools = Tools::Linked;
        let images = node::images::Images::default();
        system.linked_images = Linked(Arc::new(move |image| images.are_own_files(image)));
        chosen.omnia.own_image = Some("host".into());
    }
    let own = options.embedded.then(|| "host".to_owned());
    chosen.omnia.router_image = own.or_else(|| options.helper_image.clone());
    system.helper_image.clone_from(&options.helper_image);
    system.cluster_domain.clone_from(&options.cluster_domain);
    chosen.omnia.cluster_domain.clone_from(&options.cluster_domain);
    if let Some(image) = &options.system_image {
        system.image.clone_from(image);
    }
    let forward: Arc<dyn Dial> = Arc::new(PortForward(cluster.client.clone()));
    chosen.omnia.ask = Arc::new(Dialled(Arc::clone(&forward)));
    chosen.omnia.discover = Arc::new(Asker::new(Some(Arc::clone(&forward))));
    let sessions = Arc::new(HttpSessions::new(forward));
    let clock = engine::RealClock::shared();
    let engine = Engine::new(cluster.client.clone(), clock, chosen.engine.clone());
    let engine = controllers::install(engine, &chosen, sessions);
    let stop = CancellationToken::new();
    if let Some(address) = options.metrics_address {
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        style::say(format_args!("metrics on http://{}/metrics", listener.local_addr()?));
        let router = metrics(&engine);
        tokio::spawn(async move { axum::serve(listener, router).await });
    }
    let election = options.leader_elect.then(|| {
        let identity = format!("{}-{}", host(), std::process::id());
        Election::new(cluster.client.clone(), &cluster.namespace, LEASE, &identity)
    });
    style::say(format_args!("controllers run against Kubernetes {}", version.git_version));
    let stopping = async {
        signals.stop().await;
        stop.cancel();
    };
    memory::give_back_after_start();
    tokio::join!(engine.run(election, stop.clone()), stopping);
    Ok(())
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

fn metrics(engine: &Engine) -> Router {
    let mut registry = Registry::default();
    engine.metrics().register(&mut registry);
    let encode = |State(registry): State<Arc<Registry>>| async move {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &registry) {
            Ok(()) => Ok(text),
            Err(error) => Err((axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    };
    Router::new()
        .route("/metrics", get(encode))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(|| async { "ok" }))
        .with_state(Arc::new(registry))
}
