//! The laws, for any course of deployments, troubles, deaths and meddling.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use orrery_deploy::{Action, Category, Deployment, Desired, Key, Plan, Quiet, State, apply, destroy, plan};
use proptest::prelude::*;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::memory::{Memory, Shelf, TYPES, Trouble};

const NAMES: usize = 3;

fn key(at: usize) -> Key {
    Key::new(TYPES[at % TYPES.len()], format!("n{}", at / TYPES.len() % NAMES))
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// These are wanted (resource → content), with these troubles, and perhaps a death while the state is kept.
    Deploy(BTreeMap<usize, u8>, BTreeMap<usize, Trouble>, Option<usize>),
    /// Someone changes one of ours.
    Edit(usize, u8),
    /// Someone deletes one of ours.
    Remove(usize),
    /// Someone makes an object that is not ours, where nothing is.
    Squat(usize),
    /// Everything is torn down, with these troubles.
    Destroy(BTreeMap<usize, Trouble>),
    /// The state is lost.
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0..TYPES.len() * NAMES;
    let wanted = prop::collection::btree_map(at.clone(), 0u8..3, 0..7);
    let trouble = prop_oneof![Just(Trouble::Refused), Just(Trouble::AnswerLost), Just(Trouble::NeverReady)];
    let troubles = prop::collection::btree_map(at.clone(), trouble, 0..4);
    let step = prop_oneof![
        6 => (wanted, troubles.clone(), prop::option::of(1usize..6)).prop_map(|(w, t, d)| Step::Deploy(w, t, d)),
        2 => (at.clone(), 0u8..3).prop_map(|(at, to)| Step::Edit(at, to)),
        1 => at.clone().prop_map(Step::Remove),
        1 => at.prop_map(Step::Squat),
        1 => troubles.prop_map(Step::Destroy),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec(step, 1..8)
}

fn desired(wanted: &BTreeMap<usize, u8>) -> Vec<Desired> {
    let one = |(at, content): (&usize, &u8)| {
        let needs = if at % TYPES.len() == 0 { Vec::new() } else { vec![key(at - 1)] };
        Desired { key: key(*at), body: json!(content), summary: format!("Create {}", key(*at)), needs }
    };
    wanted.iter().map(one).collect()
}

struct World {
    target: Memory,
    state: State,
    /// Objects of others, which nobody may touch.
    squatters: BTreeSet<Key>,
}

impl World {
    fn plan(&self, wanted: &BTreeMap<usize, u8>) -> Result<Plan, String> {
        let deployment = Deployment { pack_id: "p".into(), version: "1.0.0".into(), environment: None };
        block_on(plan(&self.target, &deployment, &desired(wanted), &self.state)).map_err(|problems| {
            assert!(problems.0.iter().all(|failure| failure.category == Category::Conflict), "{problems}");
            problems.to_string()
        })
    }

    fn deploy(&mut self, wanted: &BTreeMap<usize, u8>, dies_at: Option<usize>) {
        let plan = match self.plan(wanted) {
            Ok(plan) => plan,
            Err(refusal) => return self.check_refusal(wanted, &refusal),
        };
        self.check_stale(&plan);
        self.target.touched();
        let mut keeper = Shelf::of(&self.state, dies_at);
        let stop = CancellationToken::new();
        let applied = block_on(apply(&self.target, &plan, self.state.clone(), &mut keeper, &Quiet, &stop));
        self.state = State::parse(&keeper.state.to_text()).unwrap();

        let touched: BTreeSet<Key> = self.target.touched().into_iter().map(|(key, _)| key).collect();
        let said: BTreeSet<Key> =
            plan.changes.iter().filter(|change| change.action.writes()).map(|change| change.key.clone()).collect();
        assert!(touched.is_subset(&said), "apply touched {touched:?}, the plan said {said:?}");
        if let Ok(applied) = applied {
            assert_eq!(applied.state.to_text(), keeper.state.to_text(), "what is returned was kept");
            if applied.failures.is_empty() {
                let writes = |change: &&orrery_deploy::Change| {
                    change.action.writes() && (change.action != Action::Delete || change.uid.is_some())
                };
                let exact: BTreeSet<Key> = plan.changes.iter().filter(writes).map(|c| c.key.clone()).collect();
                assert_eq!(touched, exact, "apply touches exactly what the plan said");
            }
        }
    }

    /// A plan is refused only for an object that is not ours, or that is not the one we knew.
    fn check_refusal(&self, wanted: &BTreeMap<usize, u8>, refusal: &str) {
        let objects = self.target.objects.lock();
        let stranger = wanted.keys().map(|at| key(*at)).any(|key| {
            objects.get(&key).is_some_and(|object| {
                let known = self.state.find(&key).and_then(|resource| resource.uid.clone());
                known.map_or(!object.ours, |uid| uid != object.uid)
            })
        });
        assert!(stranger, "refused without a reason: {refusal}");
    }

    fn check_stale(&self, plan: &Plan) {
        let stop = CancellationToken::new();
        let mut other = self.state.clone();
        other.serial += 1;
        self.target.touched();
        let refused = block_on(apply(&self.target, plan, other, &mut (), &Quiet, &stop)).expect_err("it is stale");
        assert!(refused.to_string().contains("stale"), "{refused}");
        assert!(self.target.touched().is_empty(), "a stale plan writes nothing");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Deploy(wanted, troubles, dies_at) => {
                self.trouble(troubles);
                self.deploy(&wanted, dies_at);
                self.trouble(BTreeMap::new());
                self.completes(&wanted);
            }
            Step::Edit(at, to) => self.target.edit(&key(at), json!(to)),
            Step::Remove(at) => {
                if !self.squatters.contains(&key(at)) {
                    self.target.objects.lock().remove(&key(at));
                }
            }
            Step::Squat(at) => {
                if !self.target.objects.lock().contains_key(&key(at)) {
                    self.target.put(&key(at), false, json!("theirs"));
                    self.squatters.insert(key(at));
                }
            }
            Step::Destroy(troubles) => {
                self.trouble(troubles);
                self.destroy();
                self.trouble(BTreeMap::new());
                self.destroy();
                assert!(self.target.owned().is_empty() && self.state.resources.is_empty(), "destroy leaves nothing");
            }
            Step::Forget => self.state = State::default(),
        }
    }

    fn trouble(&self, troubles: BTreeMap<usize, Trouble>) {
        *self.target.trouble.lock() = troubles.into_iter().map(|(at, trouble)| (key(at), trouble)).collect();
    }

    /// After whatever happened, one more plan and apply brings what is wanted, and a plan after that is empty.
    fn completes(&mut self, wanted: &BTreeMap<usize, u8>) {
        if self.plan(wanted).is_err() {
            return;
        }
        self.deploy(wanted, None);
        let expected: BTreeMap<Key, _> = wanted.iter().map(|(at, content)| (key(*at), json!(content))).collect();
        assert_eq!(self.target.owned(), expected);
        let after = self.plan(wanted).unwrap();
        assert!(after.is_empty(), "a plan after an apply is empty: {:?}", after.changes);
        let known: BTreeSet<Key> = self.state.resources.iter().map(|resource| resource.key.clone()).collect();
        assert_eq!(known, expected.into_keys().collect(), "the state knows exactly what is there");
    }

    fn destroy(&mut self) {
        let mut keeper = Shelf::of(&self.state, None);
        let done = block_on(destroy(&self.target, self.state.clone(), &mut keeper, &Quiet)).unwrap();
        self.state = State::parse(&done.state.to_text()).unwrap();
        let left: BTreeSet<Key> = self.target.owned().into_keys().collect();
        let known: BTreeSet<Key> = self.state.resources.iter().map(|resource| resource.key.clone()).collect();
        assert!(left.is_subset(&known), "what is left is in the state: {left:?}, {known:?}");
        assert_eq!(done.failures.is_empty(), known.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_the_laws_hold(steps in steps()) {
        let mut world = World { target: Memory::default(), state: State::default(), squatters: BTreeSet::new() };
        for step in steps {
            world.step(step);
            for key in &world.squatters {
                let objects = world.target.objects.lock();
                let object = objects.get(key).expect("objects of others are not deleted");
                prop_assert!(!object.ours && object.manager.as_deref() == Some("kubectl"), "{key} is not ours to touch");
            }
        }
    }
}
