use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};

use crate::ABREAST;
use crate::change::{Action, Change, Plan};
use crate::event::{Event, Report, ResourceEvent};
use crate::failure::{Category, Failure, Problems};
use crate::resource::{Desired, Key, Owner, digest};
use crate::state::{Deployment, Resource, State, Status};
use crate::target::{Live, Preview, Target};

/// Decides what is to be done. Nothing is written.
pub async fn plan(
    target: &dyn Target,
    deployment: &Deployment,
    desired: &[Desired],
    state: &State,
) -> Result<Plan, Problems> {
    state.belongs(&target.scope())?;
    let mut warnings = target.check().await.map_err(Problems)?;
    let live = target.observe(desired, &state.resources).await?;
    let pairs = pair(target.types(), desired, state, &live)?;
    warnings.extend(unknown(target.types(), state));
    let previews = preview(target, &pairs).await?;
    let changes = pairs.iter().zip(previews).map(|(pair, preview)| conclude(pair, preview)).collect();
    Ok(Plan {
        format: Plan::FORMAT,
        lineage: state.lineage.clone(),
        serial: state.serial,
        scope: target.scope(),
        pack_id: deployment.pack_id.clone(),
        version: deployment.version.clone(),
        environment: deployment.environment.clone(),
        changes,
        warnings,
    })
}

/// A resource from three sides: what should be there, what we remember, what is there.
struct Pair<'a> {
    key: &'a Key,
    desired: Option<&'a Desired>,
    record: Option<&'a Resource>,
    /// The live object, if it is ours.
    live: Option<&'a Live>,
    /// An object of the name is there and is not ours.
    stranger: bool,
}

/// Puts the three sides together: what should be there phase by phase, then what should not. Refuses what is not ours.
fn pair<'a>(
    types: &[&str],
    desired: &'a [Desired],
    state: &'a State,
    live: &'a [Live],
) -> Result<Vec<Pair<'a>>, Problems> {
    let phase = |key: &Key| types.iter().position(|type_| *type_ == key.type_);
    let found: BTreeMap<&Key, &Live> = live.iter().map(|live| (&live.key, live)).collect();
    let known: BTreeMap<&Key, &Resource> = state.resources.iter().map(|resource| (&resource.key, resource)).collect();
    let mut problems = Vec::new();
    let mut pairs = Vec::new();
    for desired in desired {
        let record = known.get(&desired.key).copied();
        let live = found.get(&desired.key).copied();
        match live.map(|live| ours(live, record)) {
            Some(Err(failure)) => problems.push(failure),
            _ => pairs.push(Pair { key: &desired.key, desired: Some(desired), record, live, stranger: false }),
        }
    }
    pairs.sort_by(|a, b| (phase(a.key), a.key).cmp(&(phase(b.key), b.key)));

    let wanted: BTreeSet<&Key> = desired.iter().map(|desired| &desired.key).collect();
    let leftover = live.iter().filter(|live| live.owner == Owner::Us).map(|live| &live.key);
    let obsolete: BTreeSet<&Key> = known.keys().copied().chain(leftover).filter(|key| !wanted.contains(key)).collect();
    for key in obsolete.into_iter().filter(|key| phase(key).is_some()) {
        let (record, live) = (known.get(key).copied(), found.get(key).copied());
        let own = live.filter(|live| ours(live, record).is_ok());
        pairs.push(Pair { key, desired: None, record, live: own, stranger: live.is_some() && own.is_none() });
    }
    if problems.is_empty() { Ok(pairs) } else { Err(Problems(problems)) }
}

/// Whether a live object is ours: the state knows its uid, or knows none and the object has our labels.
fn ours(live: &Live, record: Option<&Resource>) -> Result<(), Failure> {
    let key = &live.key;
    match (record.and_then(|record| record.uid.as_ref()), &live.owner) {
        (Some(uid), _) if *uid == live.uid => Ok(()),
        (Some(uid), _) => {
            let message =
                format!("{key} is not the object that the state knows: its uid is {}, the state has {uid}", live.uid);
            Err(Failure::new(Category::Conflict, message)
                .hint(format!("someone made it anew: import {key} to take it over, or delete it")))
        }
        (None, Owner::Us) => Ok(()),
        (None, Owner::Other(why)) => Err(not_ours(key, why)),
    }
}

/// An object that stands in the way.
pub(crate) fn not_ours(key: &Key, why: &str) -> Failure {
    Failure::new(Category::Conflict, format!("{key} exists and {why}"))
        .hint(format!("choose another name, delete it, or import {key} to take it over"))
}

fn unknown(types: &[&str], state: &State) -> Vec<String> {
    let unknown = state.resources.iter().filter(|resource| !types.contains(&resource.key.type_.as_str()));
    unknown
        .map(|resource| format!("{} is of a type that this version does not know; it is kept", resource.key))
        .collect()
}

async fn preview(target: &dyn Target, pairs: &[Pair<'_>]) -> Result<Vec<Preview>, Problems> {
    let asked = pairs.iter().map(|pair| async move {
        match pair.desired {
            Some(desired) => target.preview(desired, pair.live).await,
            None => Ok(Preview::default()),
        }
    });
    let answers: Vec<_> = stream::iter(asked).buffered(ABREAST).collect().await;
    let mut problems = Vec::new();
    let mut previews = Vec::new();
    for answer in answers {
        match answer {
            Ok(preview) => previews.push(preview),
            Err(failure) => problems.push(failure),
        }
    }
    if problems.is_empty() { Ok(previews) } else { Err(Problems(problems)) }
}

fn conclude(pair: &Pair, preview: Preview) -> Change {
    let uid = pair.live.map(|live| live.uid.clone());
    let failed = pair.record.is_some_and(|record| record.status == Status::Failed);
    let (action, detail) = match (pair.desired, pair.live) {
        (Some(desired), None) if pair.record.is_some_and(|record| record.uid.is_some()) => {
            (Action::Create, format!("{} (it is gone, although nobody here deleted it)", desired.summary))
        }
        (Some(desired), None) => (Action::Create, desired.summary.clone()),
        (Some(_), Some(_)) if preview.fields.is_empty() => (Action::NoChange, still(failed)),
        (Some(desired), Some(_)) => difference(pair, desired, &preview),
        (None, Some(_)) => (Action::Delete, format!("Delete {} {}", pair.key.type_, pair.key.name)),
        (None, None) if pair.stranger => {
            (Action::Delete, "already gone; an object of that name is not ours and stays".into())
        }
        (None, None) => (Action::Delete, "already gone".into()),
    };
    Change {
        key: pair.key.clone(),
        action,
        detail,
        fields: preview.fields,
        body: pair.desired.map(|desired| desired.body.clone()),
        needs: pair.desired.map(|desired| desired.needs.clone()).unwrap_or_default(),
        uid,
        unsettled: action == Action::NoChange && failed,
    }
}

fn still(failed: bool) -> String {
    if failed { "as it should be, but it did not work yet: apply looks again".into() } else { String::new() }
}

/// A live object that differs: because we want something else now, or because someone else changed it.
fn difference(pair: &Pair, desired: &Desired, preview: &Preview) -> (Action, String) {
    let managers: BTreeSet<&str> = preview.fields.iter().filter_map(|field| field.manager.as_deref()).collect();
    let managers = managers.into_iter().collect::<Vec<_>>().join(", ");
    let drifted = match pair.record.and_then(Resource::digest) {
        Some(last) => last == digest(&desired.body),
        None => preview.fields.iter().all(|field| field.manager.is_some()),
    };
    let (type_, name) = (&pair.key.type_, &pair.key.name);
    let count = match preview.fields.len() {
        1 => "1 field".to_owned(),
        many => format!("{many} fields"),
    };
    match (drifted, managers.is_empty()) {
        (true, true) => (Action::Drift, format!("{count} changed by someone else")),
        (true, false) => (Action::Drift, format!("{count} changed by {managers}")),
        (false, true) => (Action::Update, format!("Update {type_} {name} ({count})")),
        (false, false) => (Action::Update, format!("Update {type_} {name} ({count}; some were changed by {managers})")),
    }
}

/// What an apply would do, told as events; the state that results is marked, and keeps what is really there.
pub fn dry_run(plan: &Plan, mut state: State, report: &dyn Report) -> State {
    let total = plan.changes.len().max(1);
    for (at, change) in plan.changes.iter().enumerate() {
        let key = &change.key;
        report.event(Event::progress(&format!("Planned {}: {}", key.type_, key.name), at * 100 / total));
        let event =
            ResourceEvent { key: key.clone(), action: change.action, status: "planned", detail: change.detail.clone() };
        report.event(Event::resource(format!("Planned {change}"), event));
        if change.action == Action::Create && state.find(key).is_none() {
            state.entry(key).status = Status::Planned;
        }
    }
    report.event(Event::complete("Dry run complete: nothing was written".into()));
    state.dry_run = true;
    state.pack_id.clone_from(&plan.pack_id);
    state.version.clone_from(&plan.version);
    state
}
