//! Starts all of them.

use std::sync::Arc;

use engine::{Controller, Engine, SharedClock};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::account::Account;
use crate::claims::Claims;
use crate::deployment::Deployments;
use crate::endpoints::Endpoints;
use crate::garbage::{self, Collector};
use crate::inventory::Inventory;
use crate::namespace::Namespaces;
use crate::pod_collector::PodCollector;
use crate::replica_set::ReplicaSets;
use crate::scheduler::Scheduler;

/// What the controllers must be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The certificate of the authority that signed the API server's, in PEM; Pods find it mounted.
    pub root_certificate: String,
    /// Storage classes that mean a directory on this machine; a claim without a class means one, too.
    pub storage_classes: Vec<String>,
    /// Finished Pods that are kept.
    pub finished_pods: usize,
    /// Keys of one controller that are worked on at the same time.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root_certificate: String::new(),
            storage_classes: vec!["standard".to_owned()],
            finished_pods: 12_500,
            workers: 1,
        }
    }
}

/// Runs the controllers until told to stop.
pub async fn start(client: Client, clock: SharedClock, options: Options, shutdown: CancellationToken) {
    let inventory = Inventory::new(client.clone());
    let collector = Collector::new(Arc::clone(&inventory));
    let feed = collector.feed();
    let settings = engine::Options { workers: options.workers, ..engine::Options::default() };
    let engine = Engine::new(client, clock, settings)
        .with(Account { root_certificate: options.root_certificate })
        .with(Scheduler)
        .with(ReplicaSets)
        .with(Deployments)
        .with(Endpoints)
        .with(Claims { classes: options.storage_classes })
        .with(Namespaces { inventory })
        .with(PodCollector { finished: options.finished_pods })
        .with(collector);
    let queue = engine.queue(Collector::NAME).expect("the collector was just added");
    tokio::join!(engine.run(None, shutdown.clone()), garbage::run(feed, queue, shutdown));
}
