//! Random histories against the simplest model there is: a map for each revision.

use std::collections::BTreeMap;

use orrery_store::{
    Change, Event, EventKind, Expect, Key, Options, Paging, ReadError, Revision, Scope, Store, WriteError,
};
use proptest::prelude::*;

use crate::common::{Fixture, RESOURCE, draft};

const RESOURCES: [&str; 2] = [RESOURCE, "apps/deployments"];
const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];
const NAMES: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Debug)]
enum Step {
    Write(Key, Belief, bool),
    Reopen,
    Compact,
    /// List at a revision that lies this many changes back, in pages of this size.
    List(Scope, u64, usize),
}

/// What the writer believes.
#[derive(Clone, Copy, Debug)]
enum Belief {
    Right,
    Absent,
    Wrong,
}

fn keys() -> impl Strategy<Value = Key> {
    (0..RESOURCES.len(), 0..NAMESPACES.len(), 0..NAMES.len())
        .prop_map(|(resource, namespace, name)| Key::new(RESOURCES[resource], NAMESPACES[namespace], NAMES[name]))
}

fn scopes() -> impl Strategy<Value = Scope> {
    (0..RESOURCES.len(), prop::option::of(0..NAMESPACES.len())).prop_map(|(resource, namespace)| Scope {
        resource: RESOURCES[resource].into(),
        namespace: namespace.map(|index| NAMESPACES[index].to_owned()),
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let beliefs = prop_oneof![
        8 => Just(Belief::Right),
        1 => Just(Belief::Absent),
        1 => Just(Belief::Wrong),
    ];
    let step = prop_oneof![
        20 => (keys(), beliefs, prop::bool::weighted(0.3))
            .prop_map(|(key, belief, delete)| Step::Write(key, belief, delete)),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
        6 => (scopes(), 0..12_u64, 1..4_usize)
            .prop_map(|(scope, back, limit)| Step::List(scope, back, limit)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Path, revision and value of each live object, in order.
type Objects = BTreeMap<(String, String), (u64, String)>;

/// The model.
struct Model {
    revision: u64,
    oldest: u64,
    /// All objects at each revision.
    moments: BTreeMap<u64, Objects>,
    events: Vec<(u64, EventKind, Key, Option<u64>)>,
}

impl Model {
    fn new() -> Self {
        Self { revision: 1, oldest: 1, moments: BTreeMap::from([(1, Objects::new())]), events: Vec::new() }
    }

    fn place(key: &Key) -> (String, String) {
        (key.resource.to_string(), format!("{}/{}", key.namespace, key.name))
    }

    fn current(&self, key: &Key) -> Option<u64> {
        let objects = &self.moments[&self.revision];
        objects.get(&Self::place(key)).map(|(revision, _)| *revision)
    }

    fn write(&mut self, key: &Key, delete: bool) {
        let previous = self.current(key);
        let mut objects = self.moments[&self.revision].clone();
        self.revision += 1;
        let kind = if delete {
            objects.remove(&Self::place(key));
            EventKind::Deleted
        } else {
            let value = String::from_utf8(
                [&draft("v").before[..], self.revision.to_string().as_bytes(), &draft("v").after[..]].concat(),
            )
            .unwrap();
            objects.insert(Self::place(key), (self.revision, value));
            match previous {
                Some(_) => EventKind::Modified,
                None => EventKind::Added,
            }
        };
        self.moments.insert(self.revision, objects);
        self.events.push((self.revision, kind, key.clone(), previous));
    }

    fn list(&self, scope: &Scope, at: u64) -> Vec<(u64, String)> {
        let covered = |(resource, path): &(String, String)| {
            let namespace = path.split('/').next();
            **resource == *scope.resource && (scope.namespace.is_none() || scope.namespace.as_deref() == namespace)
        };
        let objects = self.moments[&at].iter();
        objects.filter(|(place, _)| covered(place)).map(|(_, object)| object.clone()).collect()
    }
}

/// Everything a list says, read page by page.
fn paged(store: &Store, scope: &Scope, at: u64, limit: usize) -> Result<Vec<(u64, String)>, ReadError> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let paging = Paging { limit: Some(limit), after: after.take(), at: Some(Revision(at)) };
        let page = store.list(scope, &paging)?;
        assert_eq!(page.revision, Revision(at));
        for entry in &page.entries {
            let value = String::from_utf8(entry.value.to_vec()).unwrap();
            found.push((entry.revision.0, value));
        }
        if page.remaining == 0 {
            return Ok(found);
        }
        let last = &page.entries.last().unwrap().key;
        after = Some((last.namespace.clone(), last.name.clone()));
    }
}

async fn write(store: &Store, model: &mut Model, key: Key, belief: Belief, delete: bool) {
    let current = model.current(&key);
    let expect = match (belief, current) {
        (Belief::Right, Some(revision)) => Expect::At(Revision(revision)),
        (Belief::Right, None) | (Belief::Absent, _) => Expect::Absent,
        (Belief::Wrong, _) => Expect::At(Revision(model.revision + 7)),
    };
    let action = if delete { orrery_store::Action::Delete(draft("v")) } else { orrery_store::Action::Put(draft("v")) };
    let answer = store.write(Change { key: key.clone(), expect, action }).await;
    let current = current.map(Revision);
    match (expect, current) {
        (Expect::Absent, Some(revision)) => {
            assert!(matches!(answer, Err(WriteError::Exists(entry)) if entry.revision == revision));
        }
        (Expect::At(expected), current) if current != Some(expected) => {
            let Err(WriteError::Changed(found)) = answer else { panic!("{answer:?}") };
            assert_eq!(found.map(|entry| entry.revision), current);
        }
        (Expect::Absent, None) if delete => {
            assert!(matches!(answer, Err(WriteError::Changed(None))));
        }
        _ => {
            model.write(&key, delete);
            assert_eq!(answer.unwrap().revision, Revision(model.revision));
        }
    }
}

fn seen(event: &Event) -> (u64, EventKind, Key, Option<u64>) {
    (event.revision().0, event.kind, event.entry.key.clone(), event.previous.as_ref().map(|entry| entry.revision.0))
}

/// Watches from every revision that is still there see exactly what the model saw.
async fn check_watches(store: &Store, model: &Model) {
    for after in [model.oldest, u64::midpoint(model.oldest, model.revision), model.revision] {
        for scope in [Scope::all(RESOURCE), Scope::namespace(RESOURCE, "a")] {
            let expected: Vec<_> = model
                .events
                .iter()
                .filter(|(revision, _, key, _)| {
                    *revision > after
                        && key.resource == scope.resource
                        && scope.namespace.as_ref().is_none_or(|one| *one == key.namespace)
                })
                .cloned()
                .collect();
            let mut watch = store.watch(&scope, Revision(after)).unwrap();
            let mut found = Vec::new();
            while found.len() < expected.len() {
                found.extend(watch.next().await.unwrap().iter().map(|event| seen(event)));
            }
            assert_eq!(found, expected);
            assert_eq!(watch.progress(), Revision(model.revision), "nothing more is there");
        }
    }
}

async fn run(steps: Vec<Step>) {
    let mut fixture = Fixture::with(Options::default());
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Write(key, belief, delete) => {
                write(&fixture.store, &mut model, key, belief, delete).await;
            }
            Step::Reopen => fixture = fixture.reopen().await,
            Step::Compact => {
                fixture.store.compact().await.unwrap();
                model.oldest = model.revision;
            }
            Step::List(scope, back, limit) => {
                let at = model.revision.saturating_sub(back).max(1);
                let found = paged(&fixture.store, &scope, at, limit);
                if at < model.oldest {
                    assert!(matches!(found, Err(ReadError::Expired { .. })));
                } else {
                    assert_eq!(found.unwrap(), model.list(&scope, at));
                }
            }
        }
        assert_eq!(fixture.store.revision(), Revision(model.revision));
    }
    check_watches(&fixture.store, &model).await;
    let fixture = fixture.reopen().await;
    check_watches(&fixture.store, &model).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn it_behaves_like_a_map_for_each_revision(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
