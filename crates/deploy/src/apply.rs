use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::ABREAST;
use crate::change::{Action, Change, Plan};
use crate::event::{Event, Report, ResourceEvent};
use crate::failure::{Category, Failure};
use crate::resource::{Desired, Key, digest};
use crate::state::{Keeper, LastPlan, Resource, State, Status};
use crate::target::{Target, Written};

/// What came of an apply.
#[derive(Debug)]
pub struct Applied {
    /// What is there now.
    pub state: State,
    /// What failed; the state has it as `failed`, and the next plan takes it up.
    pub failures: Vec<Failure>,
    /// How many resources got which action.
    pub done: Vec<(Key, Action)>,
}

/// Does what the plan says, phase after phase, side by side within one; then deletes what is not wanted any more, the
/// last phase first. What fails holds up what needs it, and all deletes; the rest is done.
pub async fn apply(
    target: &dyn Target,
    plan: &Plan,
    state: State,
    keeper: &mut dyn Keeper,
    report: &dyn Report,
    stop: &CancellationToken,
) -> Result<Applied, Failure> {
    fresh(plan, &state, &target.scope())?;
    let mut run = Run {
        target,
        plan,
        report,
        stop,
        state,
        failures: Vec::new(),
        broken: BTreeSet::new(),
        changed: false,
        done: Vec::new(),
    };
    run.begin(keeper).await?;
    for (phase, type_) in target.types().iter().enumerate() {
        let changes: Vec<&Change> =
            plan.changes.iter().filter(|change| change.key.type_ == *type_ && change.body.is_some()).collect();
        if !changes.is_empty() {
            run.phase(phase, &changes, keeper).await?;
        }
    }
    run.deletes(keeper).await?;
    Ok(run.end())
}

/// Refuses a plan that was made for something else.
fn fresh(plan: &Plan, state: &State, scope: &str) -> Result<(), Failure> {
    let refuse = |message: String| {
        Err(Failure::new(Category::Conflict, message).hint("the plan is stale: make a new one and apply that"))
    };
    if plan.scope != scope {
        return refuse(format!("the plan is for {}, not for {scope}", plan.scope));
    }
    if plan.lineage != state.lineage {
        return refuse("the plan was made against the state of another deployment".into());
    }
    if plan.serial != state.serial {
        return refuse(format!("the plan was made against state {}, which is {} by now", plan.serial, state.serial));
    }
    Ok(())
}

struct Run<'a> {
    target: &'a dyn Target,
    plan: &'a Plan,
    report: &'a dyn Report,
    stop: &'a CancellationToken,
    state: State,
    failures: Vec<Failure>,
    /// Keys that are not as they should be.
    broken: BTreeSet<Key>,
    done: Vec<(Key, Action)>,
    /// The state has something that was not kept yet.
    changed: bool,
}

impl Run<'_> {
    /// The state says what is about to happen before it happens: who dies in between leaves nothing unknown behind.
    async fn begin(&mut self, keeper: &mut dyn Keeper) -> Result<(), Failure> {
        if self.state.lineage.is_empty() {
            self.state.lineage = uuid::Uuid::new_v4().to_string();
        }
        self.state.pack_id.clone_from(&self.plan.pack_id);
        self.state.version.clone_from(&self.plan.version);
        self.state.scope = Some(self.plan.scope.clone());
        self.state.environment.clone_from(&self.plan.environment);
        self.state.last_plan = Some(LastPlan::of(self.plan, "apply", Timestamp::now()));
        let missing = self.plan.changes.iter().filter(|change| change.action == Action::Create);
        for change in missing {
            let entry = self.state.entry(&change.key);
            // The object that it names is gone. Its successor must be adopted, not taken for a stranger.
            (entry.uid, entry.resource_version, entry.status) = (None, None, Status::Failed);
        }
        self.changed = true;
        self.keep(keeper).await
    }

    /// Keeps the state, if there is something new in it.
    async fn keep(&mut self, keeper: &mut dyn Keeper) -> Result<(), Failure> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        self.state.serial += 1;
        keeper.keep(&self.state).await
    }

    /// The entry of a resource, to be changed.
    fn entry(&mut self, key: &Key) -> &mut Resource {
        self.changed = true;
        self.state.entry(key)
    }

    async fn phase(&mut self, phase: usize, changes: &[&Change], keeper: &mut dyn Keeper) -> Result<(), Failure> {
        let phases = self.target.types().len();
        let percent = |at: usize| (phase * changes.len() + at) * 100 / (phases * changes.len());
        let mut ready = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            match self.obstacle(change) {
                Some(failure) => self.failed(change, failure),
                None => ready.push((percent(at), *change)),
            }
        }
        let (target, report, stop) = (self.target, self.report, self.stop);
        let known = self.state.resources.clone();
        let writes = ready.into_iter().map(|(percent, change)| {
            let known = &known;
            async move {
                if stop.is_cancelled() {
                    return (change, Err(interrupted()));
                }
                let verb = verb(change.action);
                report.event(Event::progress(&format!("{verb} {}: {}", change.key.type_, change.key.name), percent));
                (change, write(target, change, known).await)
            }
        });
        let mut written = Vec::new();
        let mut writes = stream::iter(writes).buffer_unordered(ABREAST);
        while let Some((change, result)) = writes.next().await {
            match result {
                Ok(result) => {
                    self.wrote(change, result.as_ref());
                    written.push(change);
                }
                Err(failure) => self.failed(change, failure),
            }
        }
        drop(writes);
        self.keep(keeper).await?;
        self.settle(written, keeper).await
    }

    /// Why a change cannot even be tried.
    fn obstacle(&self, change: &Change) -> Option<Failure> {
        if self.stop.is_cancelled() {
            return Some(interrupted());
        }
        let missing = change.needs.iter().find(|key| self.broken.contains(key))?;
        let message = format!("not tried, because it needs {missing}, which failed");
        Some(Failure::new(Category::Resource, message))
    }

    /// Notes a write; `None` when there was nothing to write.
    fn wrote(&mut self, change: &Change, written: Option<&Written>) {
        if let (Some(written), Some(body)) = (written, &change.body) {
            let entry = self.entry(&change.key);
            entry.wrote(written, &digest(body));
            // Until it is known to work.
            entry.status = Status::Failed;
        } else if self.state.find(&change.key).is_none_or(|entry| entry.uid.is_none()) {
            self.entry(&change.key).uid.clone_from(&change.uid);
        }
    }

    /// Waits until what was written works.
    async fn settle(&mut self, changes: Vec<&Change>, keeper: &mut dyn Keeper) -> Result<(), Failure> {
        let (target, report, stop) = (self.target, self.report, self.stop);
        let waits = changes.into_iter().map(|change| async move {
            if !change.action.writes() && !change.unsettled {
                return (change, Ok(()));
            }
            let tell = |news: &str| {
                report.event(Event::note(format!("Waiting for {}: {}: {news}", change.key.type_, change.key.name)));
            };
            tokio::select! {
                settled = target.settle(&change.key, &tell) => (change, settled),
                () = stop.cancelled() => (change, Err(interrupted())),
            }
        });
        // All at once: each only waits.
        let settled = futures::future::join_all(waits).await;
        for (change, result) in settled {
            match result {
                Ok(()) => self.settled(change),
                Err(failure) => self.failed(change, failure),
            }
        }
        self.keep(keeper).await
    }

    fn settled(&mut self, change: &Change) {
        let (status, word) = match change.action {
            Action::Create => (Status::Created, "created"),
            Action::NoChange => (Status::Updated, "unchanged"),
            Action::Update | Action::Drift | Action::Delete => (Status::Updated, "updated"),
        };
        if self.state.find(&change.key).is_none_or(|entry| entry.status == Status::Failed) {
            self.entry(&change.key).status = status;
        }
        let detail = self.state.find(&change.key).and_then(|entry| entry.uid.clone()).unwrap_or_default();
        self.done.push((change.key.clone(), change.action));
        let event = ResourceEvent { key: change.key.clone(), action: change.action, status: word, detail };
        let message = format!("{} {} {:?}", capital(word), change.key.type_, change.key.name);
        self.report.event(Event::resource(message, event));
    }

    fn failed(&mut self, change: &Change, failure: Failure) {
        let key = &change.key;
        self.broken.insert(key.clone());
        if change.action.writes() && (change.action != Action::Delete || self.state.find(key).is_some()) {
            self.entry(key).status = Status::Failed;
        }
        let failure = failure.during(format!("{} {} {:?} failed", noun(change.action), key.type_, key.name));
        let event =
            ResourceEvent { key: key.clone(), action: change.action, status: "failed", detail: failure.to_string() };
        self.report.event(Event::error(failure.to_string(), Some(event)));
        self.failures.push(failure);
    }

    /// Deletes what is not wanted any more, if nothing failed: something may still refer to it otherwise.
    async fn deletes(&mut self, keeper: &mut dyn Keeper) -> Result<(), Failure> {
        for type_ in self.target.types().iter().rev() {
            let doomed: Vec<&Change> =
                self.plan.changes.iter().filter(|c| c.key.type_ == *type_ && c.action == Action::Delete).collect();
            if doomed.is_empty() {
                continue;
            }
            let held = if self.stop.is_cancelled() {
                Some(interrupted())
            } else {
                let message = "not tried, because something else failed; the next apply does it";
                (!self.failures.is_empty()).then(|| Failure::new(Category::Resource, message))
            };
            if let Some(held) = held {
                for change in doomed {
                    self.failed(change, held.clone());
                }
                self.keep(keeper).await?;
                continue;
            }
            let (target, report) = (self.target, self.report);
            let deletes = doomed.into_iter().map(|change| {
                let known = self.state.find(&change.key).cloned();
                async move {
                    // Nothing of ours is there: only the state is cleared.
                    let Some(uid) = &change.uid else { return (change, Ok(())) };
                    report.event(Event::note(format!("Deleting {}: {}", change.key.type_, change.key.name)));
                    let mut resource = known.unwrap_or_else(|| Resource::new(change.key.clone(), Status::Updated));
                    resource.uid = Some(uid.clone());
                    (change, target.delete(&resource).await)
                }
            });
            let results: Vec<_> = stream::iter(deletes).buffer_unordered(ABREAST).collect().await;
            for (change, result) in results {
                match result {
                    Ok(()) => self.deleted(change),
                    Err(failure) => self.failed(change, failure),
                }
            }
            self.keep(keeper).await?;
        }
        Ok(())
    }

    fn deleted(&mut self, change: &Change) {
        self.state.forget(&change.key);
        self.changed = true;
        self.done.push((change.key.clone(), Action::Delete));
        let key = change.key.clone();
        let message = format!("Deleted {} {:?}", key.type_, key.name);
        let event = ResourceEvent { key, action: Action::Delete, status: "deleted", detail: change.detail.clone() };
        self.report.event(Event::resource(message, event));
    }

    fn end(self) -> Applied {
        if self.failures.is_empty() {
            let count = |action| self.done.iter().filter(|(_, done)| *done == action).count();
            self.report.event(Event::complete(format!(
                "Apply complete: {} created, {} updated, {} deleted, {} unchanged",
                count(Action::Create),
                count(Action::Update) + count(Action::Drift),
                count(Action::Delete),
                count(Action::NoChange)
            )));
        }
        Applied { state: self.state, failures: self.failures, done: self.done }
    }
}

async fn write(target: &dyn Target, change: &Change, known: &[Resource]) -> Result<Option<Written>, Failure> {
    let Some(body) = &change.body else { return Ok(None) };
    let desired = || Desired {
        key: change.key.clone(),
        body: body.clone(),
        summary: change.detail.clone(),
        needs: change.needs.clone(),
    };
    match (change.action, &change.uid) {
        (Action::NoChange | Action::Delete, _) => Ok(None),
        (Action::Update | Action::Drift, Some(uid)) => target.update(&desired(), uid, known).await.map(Some),
        (Action::Create | Action::Update | Action::Drift, _) => target.create(&desired(), known).await.map(Some),
    }
}

fn interrupted() -> Failure {
    Failure::new(Category::Timeout, "interrupted").hint("apply again to go on from here")
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Create => "Creating",
        Action::Update => "Updating",
        Action::Drift => "Restoring",
        Action::NoChange => "Checking",
        Action::Delete => "Deleting",
    }
}

fn noun(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Drift => "restore",
        Action::NoChange => "check",
        Action::Delete => "delete",
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
