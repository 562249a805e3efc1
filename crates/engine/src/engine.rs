//! Puts controllers, caches and workers together.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use kube::Client;
use kube::core::{ApiResource, WatchEvent};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::act::Applier;
use crate::cache::Caches;
use crate::clock::SharedClock;
use crate::controller::Controller;
use crate::decision::Outcome;
use crate::error::Error;
use crate::events::Recorder;
use crate::key::Key;
use crate::lease::Election;
use crate::metrics::Metrics;
use crate::queue::{Queue, retry_delay};
use crate::runner::{Run, Runner};
use crate::view::View;

/// For so long others wait for a controller that is late.
const GIVE_WAY: Duration = Duration::from_secs(2);

/// How an engine runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Namespaces to look at; all when empty.
    pub namespaces: Vec<String>,
    /// Keys of one controller that are worked on at the same time, if it does not ask for more by itself.
    pub workers: usize,
    /// Who we are, in Events and in the Lease.
    pub instance: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { namespaces: Vec::new(), workers: 1, instance: "orrery".to_owned() }
    }
}

/// Runs controllers, in the background ([`Engine::run`]) or one step at a time ([`Engine::refresh`],
/// [`Engine::reconcile`], [`Engine::drain`]), which needs no background task and no real time.
pub struct Engine {
    client: Client,
    clock: SharedClock,
    options: Options,
    caches: Arc<Caches>,
    runners: Vec<Arc<dyn Run>>,
    metrics: Metrics,
}

impl Engine {
    /// An engine without controllers.
    pub fn new(client: Client, clock: SharedClock, options: Options) -> Self {
        let caches = Arc::new(Caches::new(options.namespaces.clone()));
        Self { client, clock, options, caches, runners: Vec::new(), metrics: Metrics::default() }
    }

    /// Adds a controller.
    #[must_use]
    pub fn with<C: Controller>(mut self, controller: C) -> Self {
        let connection = controller.watches().connect(&self.caches);
        let view = View {
            kinds: Arc::new(connection.kinds),
            caches: Arc::clone(&self.caches),
            client: self.client.clone(),
            clock: Arc::clone(&self.clock),
        };
        let queue = Arc::new(if C::PUNCTUAL { Queue::punctual() } else { Queue::default() });
        for subscribe in connection.subscribes {
            subscribe(&view, &queue);
        }
        let metrics = self.metrics.of(C::NAME);
        let recorder = Recorder::new(self.client.clone(), C::NAME, self.options.instance.clone(), metrics.clone());
        self.runners.push(Arc::new(Runner {
            controller,
            view,
            queue,
            applier: Applier::new(self.client.clone(), C::NAME, Arc::clone(&self.caches), metrics.clone()),
            recorder: Arc::new(recorder),
            clock: Arc::clone(&self.clock),
            metrics,
        }));
        self
    }

    /// The queue of a controller, for those who learn of changes in other ways than through its watches.
    pub fn queue(&self, controller: &str) -> Option<Arc<Queue>> {
        let runner = self.runners.iter().find(|runner| runner.name() == controller)?;
        Some(Arc::clone(runner.queue()))
    }

    /// How the cluster is reached.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The metrics, to be registered for a scrape.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Runs until told to stop. With an election the caches are kept warm all the time, and the workers work only
    /// while this process leads. Ends after every worker has finished the key in its hands.
    pub async fn run(self, election: Option<Election>, stop: CancellationToken) {
        let mut background = JoinSet::new();
        for cache in self.caches.all() {
            background.spawn(cache.run(self.client.clone(), Arc::clone(&self.clock), stop.clone()));
        }
        for runner in &self.runners {
            background.spawn(write_events(Arc::clone(runner), self.punctual(), Arc::clone(&self.clock), stop.clone()));
        }
        let synced = async {
            for cache in self.caches.all() {
                cache.synced().await;
            }
        };
        let ready = tokio::select! {
            () = synced => true,
            () = stop.cancelled() => false,
        };
        match election {
            Some(election) if ready => election.lead(&self.clock, &stop, |term| self.work(term)).await,
            None if ready => self.work(stop.clone()).await,
            _ => {}
        }
        while background.join_next().await.is_some() {}
        for runner in &self.runners {
            runner.recorder().flush().await;
        }
    }

    async fn work(&self, stop: CancellationToken) {
        let mut workers = JoinSet::new();
        for runner in &self.runners {
            for _ in 0..self.options.workers.max(runner.workers()) {
                let first = if runner.is_punctual() { Vec::new() } else { self.punctual() };
                workers.spawn(work_on(Arc::clone(runner), first, Arc::clone(&self.clock), stop.clone()));
            }
        }
        while workers.join_next().await.is_some() {}
    }

    /// The queues that go first.
    fn punctual(&self) -> Vec<Arc<Queue>> {
        let punctual = self.runners.iter().filter(|runner| runner.is_punctual());
        punctual.map(|runner| Arc::clone(runner.queue())).collect()
    }

    // One step at a time: for tests that must decide themselves what happens when.

    /// Lists every kind once: what a restart, or a watch that lost its place, does.
    pub async fn refresh(&self) -> Result<(), Error> {
        for cache in self.caches.all() {
            cache.refresh(self.client.clone()).await?;
        }
        Ok(())
    }

    /// Lists one kind again: what a watch of it that lost its place does.
    pub async fn relist(&self, resource: &ApiResource) -> Result<(), Error> {
        self.caches.refresh(resource, &self.client).await
    }

    /// Hands a watch event to the caches of its kind.
    pub fn deliver(&self, resource: &ApiResource, event: &WatchEvent<Value>) {
        self.caches.deliver(resource, event);
    }

    /// The kinds that are watched, each once.
    pub fn watched(&self) -> Vec<ApiResource> {
        let mut kinds: Vec<ApiResource> = Vec::new();
        for cache in self.caches.all() {
            if !kinds.contains(cache.resource()) {
                kinds.push(cache.resource().clone());
            }
        }
        kinds
    }

    /// The controllers' names.
    pub fn controllers(&self) -> Vec<&'static str> {
        self.runners.iter().map(|runner| runner.name()).collect()
    }

    /// The keys that want attention now, by controller.
    pub fn ready(&self) -> Vec<(&'static str, Key)> {
        let ready = |runner: &Arc<dyn Run>| {
            let name = runner.name();
            runner.queue().ready().into_iter().map(move |key| (name, key)).collect::<Vec<_>>()
        };
        self.runners.iter().flat_map(ready).collect()
    }

    /// When the next timer of any controller is due.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.runners.iter().filter_map(|runner| runner.queue().next_timer()).min()
    }

    /// Looks at one key now; `None` when no such controller is here or someone else has the key in hand.
    pub async fn reconcile(&self, controller: &str, key: &Key) -> Option<Outcome> {
        let runner = self.runners.iter().find(|runner| runner.name() == controller)?;
        if !runner.queue().claim(key) {
            return None;
        }
        let outcome = runner.reconcile(key).await;
        runner.recorder().flush().await;
        Some(outcome)
    }

    /// Takes the next key that is ready or due, of the controllers in turn, and looks at it.
    pub async fn step(&self) -> Option<(&'static str, Key, Outcome)> {
        let now = self.clock.now();
        for runner in &self.runners {
            if let Some(key) = runner.queue().take(now) {
                let outcome = runner.reconcile(&key).await;
                runner.recorder().flush().await;
                return Some((runner.name(), key, outcome));
            }
        }
        None
    }

    /// Steps until nothing is ready or due, at most `limit` times; answers how many steps that took.
    pub async fn drain(&self, limit: usize) -> usize {
        let mut steps = 0;
        while steps < limit && self.step().await.is_some() {
            steps += 1;
        }
        steps
    }
}

/// Waits until these queues are on time, though not for ever: everybody comes on.
async fn give_way(first: &[Arc<Queue>], now: Timestamp) {
    let on_time = async {
        for queue in first {
            queue.on_time(now).await;
        }
    };
    let _ = tokio::time::timeout(GIVE_WAY, on_time).await;
}

async fn work_on(runner: Arc<dyn Run>, first: Vec<Arc<Queue>>, clock: SharedClock, stop: CancellationToken) {
    while !stop.is_cancelled() {
        give_way(&first, clock.now()).await;
        if let Some(key) = runner.queue().take(clock.now()) {
            // A bug that one object brings out must not stop the work on all the others.
            if AssertUnwindSafe(runner.reconcile(&key)).catch_unwind().await.is_err() {
                tracing::error!(controller = runner.name(), %key, "the controller panicked; the key is tried again later");
                let delay = retry_delay(runner.queue().failed(&key));
                runner.queue().add_at(key, clock.now() + delay);
            }
            continue;
        }
        let timer = async {
            match runner.queue().next_timer() {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = runner.queue().changed() => {}
            () = timer => {}
        }
    }
}

async fn write_events(runner: Arc<dyn Run>, first: Vec<Arc<Queue>>, clock: SharedClock, stop: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            () = runner.recorder().waiting() => {
                give_way(&first, clock.now()).await;
                runner.recorder().flush().await;
            }
        }
    }
}
