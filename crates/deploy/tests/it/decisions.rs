//! Single decisions, one by one.

use futures::executor::block_on;
use orrery_deploy::{
    Action, Category, Change, Deployment, Desired, Event, EventKind, Key, Overall, Plan, Quiet, Report, Resource,
    State, Status, apply, destroy, dry_run, import, plan, refresh, status,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::memory::{Memory, Trouble};

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Report for Heard {
    fn event(&self, event: Event) {
        self.0.lock().push(event);
    }
}

impl Heard {
    fn messages(&self, kind: EventKind) -> Vec<String> {
        self.0.lock().iter().filter(|event| event.kind == kind).map(|event| event.message.clone()).collect()
    }
}

fn want(type_: &str, name: &str, body: Value, needs: &[&Desired]) -> Desired {
    let needs = needs.iter().map(|desired| desired.key.clone()).collect();
    Desired { key: Key::new(type_, name), body, summary: format!("Create {type_} {name}"), needs }
}

fn one(version: u8) -> Vec<Desired> {
    let store = want("store", "s", json!(version), &[]);
    let pack = want("pack", "p", json!(version), &[&store]);
    let agents: Vec<Desired> = ["a", "b", "c"].map(|name| want("agent", name, json!(version), &[&pack])).into();
    [store, pack].into_iter().chain(agents).collect()
}

fn planned(target: &Memory, desired: &[Desired], state: &State) -> Plan {
    let deployment = Deployment { pack_id: "p".into(), version: "1.0.0".into(), environment: None };
    block_on(plan(target, &deployment, desired, state)).unwrap()
}

fn deploy(target: &Memory, desired: &[Desired], state: State, heard: &dyn Report) -> orrery_deploy::Applied {
    let plan = planned(target, desired, &state);
    block_on(apply(target, &plan, state, &mut (), heard, &CancellationToken::new())).unwrap()
}

fn change<'a>(plan: &'a Plan, name: &str) -> &'a Change {
    plan.changes.iter().find(|change| change.key.name == name).unwrap()
}

#[test]
fn progress_is_a_phase_each_and_divided_by_agents() {
    let (target, heard) = (Memory::default(), Heard::default());
    let state = deploy(&target, &one(1), State::default(), &heard).state;
    let progress: Vec<String> =
        heard.messages(EventKind::Progress).into_iter().filter(|line| line.ends_with(')')).collect();
    assert_eq!(
        progress,
        [
            "Creating store: s (0%)",
            "Creating pack: p (33%)",
            "Creating agent: a (66%)",
            "Creating agent: b (77%)",
            "Creating agent: c (88%)",
        ]
    );
    assert_eq!(heard.messages(EventKind::Complete), ["Apply complete: 5 created, 0 updated, 0 deleted, 0 unchanged"]);
    assert!(state.resources.iter().all(|resource| resource.status == Status::Created && resource.uid.is_some()));
}

#[test]
fn what_fails_holds_up_what_needs_it_and_nothing_else() {
    let (target, heard) = (Memory::default(), Heard::default());
    target.trouble.lock().insert(Key::new("agent", "b"), Trouble::Refused);
    let applied = deploy(&target, &one(1), State::default(), &heard);
    assert_eq!(applied.failures.len(), 1);
    assert_eq!(applied.state.find(&Key::new("agent", "b")).unwrap().status, Status::Failed);
    assert_eq!(applied.state.find(&Key::new("agent", "c")).unwrap().status, Status::Created);
    assert!(heard.messages(EventKind::Complete).is_empty(), "what failed is not complete");

    let target = Memory::default();
    target.trouble.lock().insert(Key::new("store", "s"), Trouble::Refused);
    let applied = deploy(&target, &one(1), State::default(), &Quiet);
    assert!(target.owned().is_empty());
    let told: Vec<String> = applied.failures.iter().map(ToString::to_string).collect();
    assert!(told[1].contains("not tried, because it needs store/s"), "{told:?}");
    assert_eq!(told.len(), 5);
}

#[test]
fn deletes_wait_until_everything_else_succeeded() {
    let target = Memory::default();
    let state = deploy(&target, &one(1), State::default(), &Quiet).state;
    let fewer: Vec<Desired> = one(2).into_iter().filter(|desired| desired.key.name != "c").collect();
    target.trouble.lock().insert(Key::new("agent", "a"), Trouble::Refused);
    let applied = deploy(&target, &fewer, state, &Quiet);
    assert!(target.owned().contains_key(&Key::new("agent", "c")), "nothing is deleted while something failed");
    assert!(applied.failures.iter().any(|failure| failure.to_string().contains("the next apply does it")));
    target.trouble.lock().clear();
    let applied = deploy(&target, &fewer, applied.state, &Quiet);
    assert!(applied.failures.is_empty() && !target.owned().contains_key(&Key::new("agent", "c")));
}

#[test]
fn what_someone_else_changed_is_drift_and_says_who() {
    let target = Memory::default();
    let state = deploy(&target, &one(1), State::default(), &Quiet).state;
    target.edit(&Key::new("agent", "a"), json!(9));
    let drift = planned(&target, &one(1), &state);
    assert_eq!(change(&drift, "a").action, Action::Drift);
    assert_eq!(change(&drift, "a").detail, "1 field changed by kubectl");
    assert_eq!(change(&drift, "b").action, Action::NoChange);
    assert_eq!(drift.summary(), "Plan: 0 to create, 0 to update, 0 to delete, 1 drifted, 4 unchanged");

    let update = planned(&target, &one(2), &state);
    assert_eq!(change(&update, "a").action, Action::Update, "we want something else too");
    assert!(change(&update, "a").detail.contains("some were changed by kubectl"));

    let (refreshed, drifted) = block_on(refresh(&target, &Deployment::default(), &one(1), state)).unwrap();
    assert_eq!(drifted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["! agent a Drift"]);
    assert_eq!(refreshed.resources.len(), 5);
    let restored = deploy(&target, &one(1), refreshed, &Quiet);
    assert!(restored.failures.is_empty());
    assert_eq!(target.owned()[&Key::new("agent", "a")], json!(1));
}

#[test]
fn what_does_not_work_yet_is_looked_at_again() {
    let target = Memory::default();
    target.trouble.lock().insert(Key::new("agent", "a"), Trouble::NeverReady);
    let applied = deploy(&target, &one(1), State::default(), &Quiet);
    assert_eq!(applied.failures.len(), 1);
    let report = block_on(status(&target, applied.state.clone())).unwrap();
    assert_eq!(report.status, Overall::Degraded);
    target.trouble.lock().clear();
    let again = planned(&target, &one(1), &applied.state);
    assert!(change(&again, "a").unsettled && !again.is_empty(), "there is something to do, although not to write");
    let applied = deploy(&target, &one(1), applied.state, &Quiet);
    assert!(applied.failures.is_empty() && planned(&target, &one(1), &applied.state).is_empty());
}

#[test]
fn an_interrupted_apply_goes_on_later() {
    let target = Memory::default();
    let stop = CancellationToken::new();
    stop.cancel();
    let plan = planned(&target, &one(1), &State::default());
    let applied = block_on(apply(&target, &plan, State::default(), &mut (), &Quiet, &stop)).unwrap();
    assert!(target.owned().is_empty() && applied.failures.len() == 5);
    assert!(deploy(&target, &one(1), applied.state, &Quiet).failures.is_empty());
}

#[test]
fn a_plan_for_another_place_or_history_is_stale() {
    let target = Memory::default();
    let mut plan = planned(&target, &one(1), &State::default());
    let refused = |plan: &Plan, state: State| {
        let stop = CancellationToken::new();
        block_on(apply(&target, plan, state, &mut (), &Quiet, &stop)).expect_err("refused").to_string()
    };
    assert!(refused(&plan, State { lineage: "x".into(), ..State::default() }).contains("another deployment"));
    plan.scope = "moon".into();
    assert!(refused(&plan, State::default()).contains("for moon, not for memory"));
    assert!(target.touched().is_empty());
}

#[test]
fn only_what_is_ours_is_adopted_and_a_uid_must_match() {
    let target = Memory::default();
    target.put(&Key::new("store", "s"), false, json!(1));
    let deployment = Deployment::default();
    let refused = block_on(plan(&target, &deployment, &one(1), &State::default())).expect_err("not ours");
    assert!(refused.to_string().starts_with("store/s exists and belongs to someone else [hint:"), "{refused}");

    let key = Key::new("store", "s");
    let (state, imported) = block_on(import(&target, State::default(), &key)).unwrap();
    assert_eq!((imported.status, state.serial), ("healthy", 1));
    let applied = deploy(&target, &one(2), state, &Quiet);
    assert_eq!(target.owned()[&key], json!(2), "what was imported becomes ours");

    target.put(&key, true, json!(2));
    let refused = block_on(plan(&target, &deployment, &one(2), &applied.state)).expect_err("another uid");
    assert!(refused.to_string().contains("is not the object that the state knows"), "{refused}");
    let report = block_on(status(&target, applied.state)).unwrap();
    assert_eq!(report.resources[0].detail, "another object has taken its name");
    assert!(deploy(&target, &one(2), report.state, &Quiet).failures.is_empty(), "a refreshed state goes on");
}

#[test]
fn an_import_names_what_is_wrong() {
    let target = Memory::default();
    let refused = |key: &Key| block_on(import(&target, State::default(), key)).expect_err("refused");
    assert_eq!(refused(&Key::new("moon", "m")).category, Category::Configuration);
    assert_eq!(refused(&Key::new("store", "s")).category, Category::NotFound);
}

#[test]
fn a_dry_run_leaves_the_real_state_as_it_was() {
    let target = Memory::default();
    let heard = Heard::default();
    let plan = planned(&target, &one(1), &State::default());
    let dry = dry_run(&plan, State::default(), &heard);
    assert!(target.touched().is_empty());
    assert!(dry.dry_run && dry.resources.iter().all(|resource| resource.status == Status::Planned));
    let real = State::parse(&dry.to_text()).unwrap();
    assert!(deploy(&target, &one(1), real, &Quiet).failures.is_empty());
    assert_eq!(heard.messages(EventKind::Progress)[1], "Planned pack: p (20%)");
}

#[test]
fn unknown_types_are_destroyed_last() {
    let target = Memory::default();
    let mut state = deploy(&target, &one(1), State::default(), &Quiet).state;
    let hologram = Key::new("hologram", "h");
    target.put(&hologram, true, json!(1));
    let mut entry = Resource::new(hologram.clone(), Status::Created);
    entry.uid = Some(target.objects.lock()[&hologram].uid.clone());
    state.resources.insert(0, entry);
    assert!(planned(&target, &one(1), &state).is_empty(), "they are left alone before");
    target.touched();
    let heard = Heard::default();
    let done = block_on(destroy(&target, state, &mut (), &heard)).unwrap();
    assert!(done.failures.is_empty() && target.owned().is_empty());
    let steps: Vec<String> =
        heard.messages(EventKind::Progress).into_iter().filter(|line| line.starts_with("Step")).collect();
    assert_eq!(
        steps,
        [
            "Step 1: deleting agent resources (3)",
            "Step 2: deleting pack resources (1)",
            "Step 3: deleting store resources (1)",
            "Step 4: deleting hologram resources (1)",
        ]
    );
}
