use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};

use crate::ABREAST;
use crate::change::Action;
use crate::event::{Event, Report, ResourceEvent};
use crate::failure::Failure;
use crate::resource::{Key, Owner};
use crate::state::{Keeper, Resource, State, Status};
use crate::target::Target;

/// What came of a destroy.
#[derive(Debug)]
pub struct Destroyed {
    /// What is left: what could not be deleted.
    pub state: State,
    /// Why.
    pub failures: Vec<Failure>,
}

/// Deletes everything that is ours, the last phase first, types that this version does not know last of all. What fails
/// is told and left in the state; the rest is deleted all the same.
pub async fn destroy(
    target: &dyn Target,
    mut state: State,
    keeper: &mut dyn Keeper,
    report: &dyn Report,
) -> Result<Destroyed, Failure> {
    state.belongs(&target.scope())?;
    let mut failures = Vec::new();
    let mut doomed = state.resources.clone();
    match target.observe(&[], &state.resources).await {
        Ok(live) => {
            // What an interrupted apply made and nobody wrote down carries our labels.
            let known: BTreeSet<Key> = doomed.iter().map(|resource| resource.key.clone()).collect();
            let unknown = live.into_iter().filter(|live| live.owner == Owner::Us && !known.contains(&live.key));
            doomed.extend(unknown.map(|live| {
                let mut resource = Resource::new(live.key, Status::Updated);
                resource.uid = Some(live.uid);
                resource
            }));
        }
        Err(failure) => failures.push(fail(report, None, failure.during("looking for leftovers failed"))),
    }
    if doomed.is_empty() && failures.is_empty() {
        report.event(Event::note("No resources to destroy".into()));
        report.event(Event::complete("Destroy complete (nothing to do)".into()));
        return Ok(Destroyed { state, failures });
    }
    report.event(Event::note(format!("Destroying {} resources", doomed.len())));
    for (step, (type_, resources)) in steps(target.types(), &doomed).into_iter().enumerate() {
        if resources.is_empty() {
            continue;
        }
        report.event(Event::note(format!("Step {}: deleting {type_} resources ({})", step + 1, resources.len())));
        let deletes = resources.into_iter().map(|resource| async move { (resource, target.delete(resource).await) });
        let mut deletes = stream::iter(deletes).buffer_unordered(ABREAST);
        while let Some((resource, result)) = deletes.next().await {
            match result {
                Ok(()) => {
                    state.forget(&resource.key);
                    report.event(deleted(&resource.key));
                }
                Err(failure) => {
                    let entry = state.entry(&resource.key);
                    entry.status = Status::Failed;
                    entry.uid.clone_from(&resource.uid);
                    failures.push(fail(report, Some(&resource.key), failure));
                }
            }
        }
        state.serial += 1;
        keeper.keep(&state).await?;
    }
    if failures.is_empty() {
        report.event(Event::complete("Destroy complete".into()));
    }
    Ok(Destroyed { state, failures })
}

/// What is deleted, in which order.
fn steps<'a>(types: &[&'a str], doomed: &'a [Resource]) -> Vec<(&'a str, Vec<&'a Resource>)> {
    let of = |type_: &str| doomed.iter().filter(|resource| resource.key.type_ == type_).collect();
    let mut steps: Vec<(&str, Vec<&Resource>)> = types.iter().rev().map(|type_| (*type_, of(type_))).collect();
    let unknown: BTreeSet<&str> = doomed.iter().map(|resource| resource.key.type_.as_str()).collect();
    steps.extend(unknown.into_iter().filter(|type_| !types.contains(type_)).map(|type_| (type_, of(type_))));
    steps
}

fn deleted(key: &Key) -> Event {
    let message = format!("Deleted {} {:?}", key.type_, key.name);
    let event = ResourceEvent { key: key.clone(), action: Action::Delete, status: "deleted", detail: String::new() };
    Event::resource(message, event)
}

fn fail(report: &dyn Report, key: Option<&Key>, failure: Failure) -> Failure {
    let failure = match key {
        Some(key) => failure.during(format!("delete {} {:?} failed", key.type_, key.name)),
        None => failure,
    };
    let event = key.map(|key| ResourceEvent {
        key: key.clone(),
        action: Action::Delete,
        status: "failed",
        detail: failure.to_string(),
    });
    report.event(Event::error(failure.to_string(), event));
    failure
}
