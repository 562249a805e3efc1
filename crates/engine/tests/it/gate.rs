//! How many keys are in hand at once, and what happens to them when a process stops leading. The controller here waits
//! in the middle of its look until the test lets it go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::{Client, ResourceExt};
use orrery_engine::{
    Clock, Controller, Decision, Election, Engine, Error, Key, Options, RealClock, SharedClock, View, Watches,
};
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// What was looked at so far.
#[derive(Clone, Default)]
struct Looks {
    /// Begun, by name.
    begun: BTreeMap<String, usize>,
    /// In hand now, by name.
    inside: BTreeMap<String, usize>,
    /// Most at once, of all and of one.
    most: usize,
    most_of_one: usize,
}

/// Signs ConfigMaps with their text, once it is let.
#[derive(Clone)]
struct Gate {
    looks: watch::Sender<Looks>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn closed() -> Self {
        Self { looks: watch::Sender::default(), open: Arc::new(Semaphore::new(0)) }
    }

    /// Lets so many looks go on.
    fn let_through(&self, count: usize) {
        self.open.add_permits(count);
    }

    async fn until(&self, so: impl FnMut(&Looks) -> bool) -> Looks {
        let mut changes = self.looks.subscribe();
        tokio::time::timeout(Duration::from_mins(1), changes.wait_for(so)).await.expect("it comes").unwrap().clone()
    }
}

impl Controller for Gate {
    const NAME: &'static str = "gate";
    type Observed = Arc<ConfigMap>;

    fn watches(&self) -> Watches {
        Watches::of::<ConfigMap>()
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Arc<ConfigMap>>, Error> {
        let seen = view.cached::<ConfigMap>(key).filter(|map| map.labels().contains_key("mirror"));
        let Some(seen) = seen else { return Ok(None) };
        self.looks.send_modify(|looks| {
            *looks.begun.entry(key.name.clone()).or_default() += 1;
            *looks.inside.entry(key.name.clone()).or_default() += 1;
            looks.most = looks.most.max(looks.inside.values().sum());
            looks.most_of_one = looks.most_of_one.max(looks.inside[&key.name]);
        });
        self.open.acquire().await.unwrap().forget();
        self.looks.send_modify(|looks| *looks.inside.get_mut(&key.name).unwrap() -= 1);
        Ok(Some(seen))
    }

    fn decide(&self, seen: &Arc<ConfigMap>, _now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        if seen.labels()["mirror"] == "sign" {
            decision.annotate(&**seen, [("signed", Some(seen.data.as_ref().unwrap()["text"].clone()))]);
        }
        decision
    }
}

fn run(
    client: Client,
    gate: &Gate,
    clock: SharedClock,
    workers: usize,
    leader: Option<&'static str>,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let engine = Engine::new(client.clone(), clock, Options { workers, ..Options::default() }).with(gate.clone());
    let election = leader.map(|name| Election::new(client, "default", "the-lease", name));
    tokio::spawn(engine.run(election, stop.clone()))
}

#[tokio::test]
async fn as_many_keys_are_in_hand_as_there_are_workers() {
    for workers in [Options::default().workers, 3] {
        let world = World::start().await;
        for name in ["a", "b", "c", "d", "e"] {
            world.create(name, "look", "x").await;
        }
        let (gate, stop) = (Gate::closed(), CancellationToken::new());
        let running = run(world.plane.client(), &gate, RealClock::shared(), workers, None, &stop);
        gate.until(|looks| looks.inside.values().sum::<usize>() == workers).await;
        for done in 1..=5 {
            gate.let_through(1);
            // The next one is taken as soon as a worker is free, and not before.
            let wanted = (workers + done).min(5);
            gate.until(|looks| looks.begun.len() == wanted).await;
        }
        let looks = gate.until(|looks| looks.inside.values().sum::<usize>() == 0).await;
        assert_eq!((looks.most, looks.most_of_one), (workers, 1));
        stop.cancel();
        running.await.unwrap();
    }
    assert_eq!(Options::default().workers, 1);
}

#[tokio::test]
async fn a_key_that_changes_while_it_is_in_hand_is_looked_at_again_afterwards() {
    let world = World::start().await;
    world.create("a", "look", "one").await;
    let (gate, stop) = (Gate::closed(), CancellationToken::new());
    let running = run(world.plane.client(), &gate, RealClock::shared(), 2, None, &stop);
    gate.until(|looks| looks.begun.contains_key("a")).await;
    world.merge("a", json!({"data": {"text": "two"}})).await;
    // The other worker is free, has heard of the change before it hears of this, and takes only this.
    world.create("b", "look", "one").await;
    let looks = gate.until(|looks| looks.begun.contains_key("b")).await;
    assert_eq!(looks.begun["a"], 1);
    gate.let_through(3);
    let looks = gate.until(|looks| looks.begun["a"] == 2).await;
    assert_eq!(looks.most_of_one, 1);
    stop.cancel();
    running.await.unwrap();
}

async fn lease(world: &World) -> k8s_openapi::api::coordination::v1::LeaseSpec {
    Api::<Lease>::default_namespaced(world.plane.client()).get("the-lease").await.unwrap().spec.unwrap()
}

#[tokio::test]
async fn a_leader_that_stops_keeps_the_lease_until_its_hands_are_empty() {
    let world = World::start().await;
    world.create("a", "sign", "text").await;
    let clock: SharedClock = Arc::new(world.clock.clone());
    let (first, second) = (Gate::closed(), Gate::closed());
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());
    let leading = run(world.plane.client(), &first, Arc::clone(&clock), 1, Some("first"), &stop_first);
    first.until(|looks| looks.begun.contains_key("a")).await;
    let waiting = run(world.plane.client(), &second, clock, 1, Some("second"), &stop_second);

    stop_first.cancel();
    // It goes on renewing: what it has in hand is not finished.
    world.clock.advance(Duration::from_secs(3));
    let now = Clock::now(&world.clock);
    while lease(&world).await.renew_time.unwrap().0 != now {
        tokio::task::yield_now().await;
    }
    assert_eq!(lease(&world).await.holder_identity.as_deref(), Some("first"));
    assert!(second.looks.borrow().begun.is_empty(), "nobody else works meanwhile");

    first.let_through(1);
    leading.await.unwrap();
    assert_eq!(world.maps().get("a").await.unwrap().annotations()["signed"], "text", "what was begun is done");
    assert_eq!(first.looks.borrow().begun["a"], 1, "and nothing is begun any more");
    assert_eq!(lease(&world).await.holder_identity.as_deref(), Some(""), "given back, not left to run out");

    // No lease has to run out: at its next try the other one leads, and its caches are warm.
    while !second.looks.borrow().begun.contains_key("a") {
        world.clock.advance(Duration::from_secs(3));
        let soon = second.until(|looks| looks.begun.contains_key("a"));
        let _ = tokio::time::timeout(Duration::from_millis(20), soon).await;
    }
    second.let_through(Semaphore::MAX_PERMITS / 2);
    stop_second.cancel();
    waiting.await.unwrap();
}

#[tokio::test]
async fn the_late_write_of_a_deposed_leader_is_refused() {
    let world = World::start().await;
    world.create("a", "sign", "old").await;
    let (gate, stop) = (Gate::closed(), CancellationToken::new());
    let deposed = run(world.plane.client(), &gate, Arc::new(world.clock.clone()), 1, Some("first"), &stop);
    gate.until(|looks| looks.begun.contains_key("a")).await;
    // While it dozes over what it saw, somebody else takes the lease and does the work, on what is there by then.
    let leases = Api::<Lease>::default_namespaced(world.plane.client());
    let mut taken = leases.get("the-lease").await.unwrap();
    taken.spec.as_mut().unwrap().holder_identity = Some("second".into());
    leases.replace("the-lease", &kube::api::PostParams::default(), &taken).await.unwrap();
    world.merge("a", json!({"data": {"text": "new"}, "metadata": {"annotations": {"signed": "new"}}})).await;
    let before = world.maps().get("a").await.unwrap();
    stop.cancel();
    gate.let_through(Semaphore::MAX_PERMITS / 2);
    deposed.await.unwrap();
    let after = world.maps().get("a").await.unwrap();
    assert_eq!(after.annotations()["signed"], "new");
    assert_eq!(after.resource_version(), before.resource_version(), "it has written nothing");
    assert_eq!(
        lease(&world).await.holder_identity.as_deref(),
        Some("second"),
        "nor has it given away what is not its own"
    );
}
