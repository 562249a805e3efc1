use jiff::Timestamp;

use crate::change::{Action, Change, Plan};
use crate::failure::{Category, Failure, Problems};
use crate::plan::plan;
use crate::resource::{Desired, Key};
use crate::state::{Deployment, LastPlan, Resource, State, Status};
use crate::status::{Health, ResourceStatus, status};
use crate::target::Target;

/// What a refresh calls its plan in the state.
const REFRESH: &str = "refresh";

/// Takes an object that is there into the state, whoever made it. The next apply makes it what it should be.
pub async fn import(target: &dyn Target, mut state: State, key: &Key) -> Result<(State, ResourceStatus), Failure> {
    state.belongs(&target.scope())?;
    if !target.types().contains(&key.type_.as_str()) {
        let message = format!("there is no resource type {:?}", key.type_);
        return Err(
            Failure::new(Category::Configuration, message).hint(format!("it is one of {}", target.types().join(", ")))
        );
    }
    let asked = [Resource::new(key.clone(), Status::Updated)];
    let live = target.observe(&[], &asked).await?;
    let Some(live) = live.into_iter().find(|live| live.key == *key) else {
        let message = format!("{key} is not there to be imported, in {}", target.scope());
        return Err(Failure::new(Category::NotFound, message));
    };
    let (status, detail) = match target.health(&live) {
        Health::Healthy(detail) => ("healthy", detail),
        Health::Unhealthy(detail) => ("unhealthy", detail),
    };
    // Without what is remembered of an earlier object of the name.
    state.forget(key);
    let entry = state.entry(key);
    entry.status = Status::Updated;
    entry.uid = Some(live.uid);
    entry.resource_version = Some(live.resource_version);
    state.scope = Some(target.scope());
    state.serial += 1;
    Ok((state, ResourceStatus { key: key.clone(), status, detail }))
}

/// Brings the state up to date with what is there, and says what was changed by others.
pub async fn refresh(
    target: &dyn Target,
    deployment: &Deployment,
    desired: &[Desired],
    state: State,
) -> Result<(State, Vec<Change>), Problems> {
    let report = status(target, state).await?;
    let mut state = report.state;
    let plan = plan(target, deployment, desired, &state).await?;
    let gone = |change: &Change| {
        change.action == Action::Create
            && report.resources.iter().any(|resource| resource.key == change.key && resource.status == "missing")
    };
    let drifted = |change: &Change| {
        change.action == Action::Drift || change.fields.iter().any(|field| field.manager.is_some()) || gone(change)
    };
    let found: Vec<Change> = plan.changes.iter().filter(|change| drifted(change)).cloned().collect();
    let told = state.last_plan.as_ref().is_some_and(|last| last.operation == REFRESH);
    // That nobody changed anything is news only after somebody had.
    if !found.is_empty() || told {
        let plan = Plan { changes: found.clone(), ..plan };
        state.last_plan = Some(LastPlan::of(&plan, REFRESH, Timestamp::now()));
        state.serial += 1;
    }
    Ok((state, found))
}
