//! Deletes what has lost its owners: in the background, in the foreground (dependents first), or not at all (orphans).
//!
//! The graph of owners and dependents comes from watches of every kind's metadata. It tells what to look at; whether an
//! owner is really gone, and whether really nothing depends on an object any more, is asked live.

use std::sync::Arc;

use engine::{Controller, Decision, Error, Key, Outcome, View, Watches};
use jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;

use crate::inventory::{Inventory, is_owned_by};

mod decide;
mod graph;
mod watch;

use decide::{FOREGROUND, ORPHAN, OwnerState};
use graph::{Graph, Item};
pub use watch::run;

/// The collector.
pub struct Collector {
    inventory: Arc<Inventory>,
    graph: Arc<Mutex<Graph>>,
}

impl Collector {
    /// A collector that has seen nothing yet.
    pub fn new(inventory: Arc<Inventory>) -> Self {
        Self { inventory, graph: Arc::new(Mutex::new(Graph::default())) }
    }

    /// What its watches fill; see [`run`].
    pub fn feed(&self) -> watch::Feed {
        watch::Feed::new(Arc::clone(&self.inventory), Arc::clone(&self.graph))
    }

    async fn owner_state(&self, item: &Item, owner: &graph::Owner) -> Result<OwnerState, Error> {
        if let Some(known) = self.graph.lock().get(&owner.uid) {
            // An owner in another namespace is no owner; Kubernetes says the same.
            if !known.key.namespace.is_empty() && known.key.namespace != item.key.namespace {
                return Ok(OwnerState::Gone);
            }
            let foreground = known.deleting && known.finalizers.iter().any(|name| name == FOREGROUND);
            return Ok(if foreground { OwnerState::WaitsForDependents } else { OwnerState::Present });
        }
        let Some(kind) = self.inventory.find(&owner.api_version, &owner.kind) else { return Ok(OwnerState::Unknown) };
        let namespace = if kind.namespaced { item.key.namespace.as_str() } else { "" };
        let live = self.inventory.read(&kind, &Key::new(namespace, &owner.name)).await?;
        let same = live.is_some_and(|live| live.metadata.uid.as_ref() == Some(&owner.uid));
        Ok(if same { OwnerState::Present } else { OwnerState::Gone })
    }

    /// Everything that names `item` as its owner, asked of the API server kind by kind.
    async fn live_dependents(&self, item: &Item) -> Result<Vec<Item>, Error> {
        let mut dependents = Vec::new();
        for kind in self.inventory.all() {
            if !kind.namespaced && !item.key.namespace.is_empty() {
                continue;
            }
            let listed = self.inventory.list(&kind, &item.key.namespace).await?;
            let owned = listed.iter().filter(|object| is_owned_by(object, &item.uid));
            dependents.extend(owned.map(|object| Item::new(&kind, object)));
        }
        Ok(dependents)
    }
}

/// An object and everything that decides about its life.
pub struct Observed {
    item: Item,
    owners: Vec<OwnerState>,
    dependents: Vec<Item>,
}

impl Controller for Collector {
    const NAME: &'static str = "orrery-garbage-collector";
    type Observed = Observed;

    /// Keys are uids, and come from the [`watch::Feed`].
    fn watches(&self) -> Watches {
        Watches::none()
    }

    async fn observe(&self, key: &Key, _view: &View) -> Result<Option<Observed>, Error> {
        let known = self.graph.lock().get(&key.name).cloned();
        let Some(mut item) = known else { return Ok(None) };
        let mut dependents = self.graph.lock().dependents(&item.uid);
        let mut owners = Vec::with_capacity(item.owners.len());
        for owner in &item.owners {
            owners.push(self.owner_state(&item, owner).await?);
        }
        let held = |name: &str| item.deleting && item.finalizers.iter().any(|finalizer| finalizer == name);
        let blocked = dependents.iter().any(|dependent| dependent.blocks(&item.uid));
        let ends = held(ORPHAN) || (held(FOREGROUND) && !blocked);
        let orphaned = !item.deleting && owners.iter().any(|state| *state != OwnerState::Present);
        if ends || orphaned {
            // Something is about to be written: see the object as it is now.
            let live = self.inventory.read(&item.kind, &item.key).await?;
            let Some(live) = live.filter(|live| live.uid().as_ref() == Some(&item.uid)) else { return Ok(None) };
            let live = Item::new(&item.kind, &live);
            if live.owners != item.owners || live.deleting != item.deleting {
                // The watch will tell, and then the owners are looked up again.
                self.graph.lock().put(live);
                return Ok(None);
            }
            item = live;
        }
        if ends {
            dependents = self.live_dependents(&item).await?;
        }
        Ok(Some(Observed { item, owners, dependents }))
    }

    fn decide(&self, observed: &Observed, _now: Timestamp) -> Decision {
        let Observed { item, owners, dependents } = observed;
        if owners.contains(&OwnerState::Unknown) && !item.deleting {
            let mut decision = Decision::none();
            decision.outcome(Outcome::Waiting("an owner is of a kind that is not served".to_owned()));
            return decision;
        }
        decide::decide(item, owners, dependents)
    }
}
