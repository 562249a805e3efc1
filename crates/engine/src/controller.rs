//! What a controller is: what it watches, what it looks at, what it decides.

use std::any::TypeId;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource;
use kube::core::Selector;

use crate::cache::{AnyCache, Cached, Caches, Change};
use crate::decision::Decision;
use crate::error::{Error, Failure};
use crate::key::Key;
use crate::queue::Queue;
use crate::view::View;

/// Observe → decide; the engine acts.
pub trait Controller: Send + Sync + 'static {
    /// Field manager, reporter of Events and metric label, such as `orrery-task`.
    const NAME: &'static str;

    /// Keys that are worked on at the same time, unless the operator wants more. One keeps their order; many share the
    /// store's commits.
    const WORKERS: usize = 1;

    /// Whether it is about being on time: its keys whose time has come go before everything else that can wait a little,
    /// of its own and of the engine's other controllers.
    const PUNCTUAL: bool = false;

    /// Everything a decision depends on.
    type Observed: Send + Sync;

    /// The kinds whose changes matter, and whose keys they touch.
    fn watches(&self) -> Watches;

    /// Looks at everything that the decision about `key` depends on. `None`: there is nothing to decide.
    fn observe(&self, key: &Key, view: &View) -> impl Future<Output = Result<Option<Self::Observed>, Error>> + Send;

    /// Decides, from nothing but what was observed and the time.
    fn decide(&self, observed: &Self::Observed, now: Timestamp) -> Decision;

    /// Decides what to tell the user when a step of the decision was refused: usually a condition in the status.
    /// The engine retries (or waits) by itself.
    fn refused(&self, _observed: &Self::Observed, _failure: &Failure, _now: Timestamp) -> Decision {
        Decision::none()
    }
}

tokio::task_local! {
    /// A key whose own look is writing that it failed. That news must not bring the next look: the back-off does.
    /// Anything else that happens to the key at the same time comes from other tasks, and does.
    pub(crate) static QUIET: (usize, Key);
}

/// What tells one queue from another.
pub(crate) fn identity(queue: &Arc<Queue>) -> usize {
    Arc::as_ptr(queue) as usize
}

type Connect = Box<dyn FnOnce(&Caches, &mut Connection) + Send>;
/// Done once all caches are known, because the mappings look into them.
type Subscribe = Box<dyn FnOnce(&View, &Arc<Queue>) + Send>;

/// The kinds a controller watches. Each kind is named once.
#[derive(Default)]
pub struct Watches {
    connects: Vec<Connect>,
}

#[derive(Default)]
pub(crate) struct Connection {
    pub(crate) kinds: HashMap<TypeId, Arc<dyn AnyCache>>,
    pub(crate) subscribes: Vec<Subscribe>,
}

impl Watches {
    /// Watches nothing; the keys come from elsewhere.
    pub fn none() -> Self {
        Self::default()
    }

    /// Watches the kind whose objects are the keys.
    pub fn of<K: Cached>() -> Self {
        Self::default().mapped::<K>(|object, _| vec![Key::of(object)])
    }

    /// Watches a kind whose objects belong to the keys: the owner of kind `owner` is touched.
    #[must_use]
    pub fn owned<K: Cached>(self, owner: &'static str) -> Self {
        self.mapped::<K>(move |object, _| owner_keys(object, owner))
    }

    /// The same for the objects with certain labels only, which saves memory.
    #[must_use]
    pub fn owned_selected<K: Cached>(self, owner: &'static str, selector: Selector) -> Self {
        self.mapped_selected::<K>(selector, move |object, _| owner_keys(object, owner))
    }

    /// Watches a kind and says which keys an object touches. Asked about the object before and after a change.
    #[must_use]
    pub fn mapped<K: Cached>(self, keys: impl Fn(&K, &View) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.mapped_selected(Selector::default(), keys)
    }

    /// Watches a kind only to look at it; its changes touch no key.
    #[must_use]
    pub fn read<K: Cached>(self) -> Self {
        self.mapped::<K>(|_, _| Vec::new())
    }

    /// The same as [`Watches::mapped`] for the objects with certain labels only.
    #[must_use]
    pub fn mapped_selected<K: Cached>(
        self,
        selector: Selector,
        keys: impl Fn(&K, &View) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.trimmed(selector, |_| {}, keys)
    }

    /// The same, and of each object only what `trim` leaves is kept. All controllers of an engine that name the same kind
    /// and selection share what is kept.
    #[must_use]
    pub fn trimmed<K: Cached>(
        self,
        selector: Selector,
        trim: fn(&mut K),
        keys: impl Fn(&K, &View) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.changes_selected(selector, trim, move |change: &Change<K>, view| {
            let mut touched: Vec<Key> =
                change.before.iter().chain(&change.after).flat_map(|object| keys(object, view)).collect();
            touched.sort();
            touched.dedup();
            touched
        })
    }

    /// The same for those who must compare before and after, to ignore changes that do not concern them.
    #[must_use]
    pub fn changes<K: Cached>(self, keys: impl Fn(&Change<K>, &View) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.changes_selected(Selector::default(), |_| {}, keys)
    }

    fn changes_selected<K: Cached>(
        mut self,
        selector: Selector,
        trim: fn(&mut K),
        keys: impl Fn(&Change<K>, &View) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.connects.push(Box::new(move |caches, connection| {
            let cache = caches.of::<K>(&selector, trim);
            let twice = connection.kinds.insert(TypeId::of::<K>(), Arc::clone(&cache) as Arc<dyn AnyCache>);
            assert!(twice.is_none(), "a controller names each kind it watches once");
            connection.subscribes.push(Box::new(move |view, queue| {
                let (view, queue) = (view.clone(), Arc::clone(queue));
                cache.subscribe(move |change| {
                    let is_quiet = |key: &Key| QUIET.try_with(|(of, quiet)| *of == identity(&queue) && quiet == key);
                    for key in keys(change, &view) {
                        if !is_quiet(&key).unwrap_or(false) {
                            queue.add(key);
                        }
                    }
                });
            }));
        }));
        self
    }

    pub(crate) fn connect(self, caches: &Caches) -> Connection {
        let mut connection = Connection::default();
        for connect in self.connects {
            connect(caches, &mut connection);
        }
        connection
    }
}

/// The keys of the owners of a kind, whatever its group.
fn owner_keys<K: Resource>(object: &K, owner: &str) -> Vec<Key> {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    let owners = object.meta().owner_references.iter().flatten().filter(|reference| reference.kind == owner);
    owners.map(|reference| Key::new(namespace.clone(), reference.name.clone())).collect()
}
