//! Removing objects: preconditions, grace, finalizers and what happens to dependents.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use machinery::field::{self, Path};
use machinery::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Entry, WriteError};

use crate::call::Call;
use crate::decode;
use crate::object::{self, Object};
use crate::options;
use crate::respond;
use crate::verbs::{get, list};
use crate::write;

/// Holds the object until the collector has cut its dependents loose.
pub const ORPHAN: &str = "orphan";
/// Holds the object until the collector has deleted its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";

const ATTEMPTS: usize = 16;

/// `DeleteOptions`, from body and query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    kind: Option<String>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    dry_run: Option<Vec<String>>,
    preconditions: Option<Preconditions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// What became of an object.
enum Outcome {
    /// It is gone; this was its last form.
    Gone(Value),
    /// It waits for someone.
    Waiting(Object),
}

/// DELETE of one object.
pub async fn delete(call: &mut Call, body: &Bytes) -> Result<Response, Status> {
    let options = read_options(call, body)?;
    let name = call.target.name.clone();
    Ok(match remove(call, &name, &options).await? {
        Outcome::Waiting(object) => get::answer(call, StatusCode::OK, object),
        Outcome::Gone(object) if call.kind.writing.returns_deleted => {
            get::answer(call, StatusCode::OK, Object::Value(object))
        }
        Outcome::Gone(object) => respond::value(StatusCode::OK, &success(call, &object), call.accept.pretty),
    })
}

/// DELETE of a collection: each object by itself, so a failure leaves the rest to the next try.
pub async fn delete_collection(call: &mut Call, body: &Bytes) -> Result<Response, Status> {
    let options = read_options(call, body)?;
    let found = list::find(call)?;
    for entry in &found.entries {
        // Without a namespace in the path, each object brings its own.
        call.target.namespace.clone_from(&entry.key.namespace);
        match remove(call, &entry.key.name, &options).await {
            Err(status) if status.reason != "NotFound" => return Err(status),
            _ => {}
        }
    }
    Ok(list::answer(call, &found))
}

fn read_options(call: &mut Call, body: &Bytes) -> Result<Options, Status> {
    let mut options = Options::default();
    if !body.is_empty() {
        let value = decode::object(&call.headers, body)?.value;
        options = serde_json::from_value(value)
            .map_err(|error| Status::bad_request(format!("the body is no DeleteOptions: {error}")))?;
        if let Some(kind) = options.kind.as_deref().filter(|kind| !matches!(*kind, "" | "DeleteOptions")) {
            return Err(Status::bad_request(format!("the body of a DELETE must be DeleteOptions, not {kind}")));
        }
    }
    if let Some(seconds) = call.query.number("gracePeriodSeconds")? {
        options.grace_period_seconds = i64::try_from(seconds).ok();
    }
    if let Some(policy) = call.query.get("propagationPolicy") {
        options.propagation_policy = Some(policy.to_owned());
    }
    if let Some(orphan) = call.query.flag("orphanDependents") {
        options.orphan_dependents = Some(orphan);
    }
    check(call, &options)?;
    Ok(options)
}

fn check(call: &mut Call, options: &Options) -> Result<(), Status> {
    let refuse = |cause| Err(options::invalid("DeleteOptions", vec![cause]));
    let dry_run = options.dry_run.clone().unwrap_or_default();
    if dry_run.iter().any(|value| value != "All") {
        return refuse(field::not_supported(&Path::new("dryRun"), &json!(dry_run), &["All"]));
    }
    call.query.dry_run |= !dry_run.is_empty();
    let path = Path::new("propagationPolicy");
    let policy = json!(options.propagation_policy);
    if options.propagation_policy.is_some() && options.orphan_dependents.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        return refuse(field::invalid(&path, &policy, detail));
    }
    match options.propagation_policy.as_deref() {
        None | Some("Orphan" | "Background" | "Foreground") => Ok(()),
        Some(_) => refuse(field::not_supported(&path, &policy, &["Foreground", "Background", "Orphan", "nil"])),
    }
}

/// Deletes one object, or begins to.
async fn remove(call: &Call, name: &str, options: &Options) -> Result<Outcome, Status> {
    for attempt in 1.. {
        let entry = call.entry(name)?;
        let live = call.value(&entry);
        check_preconditions(call, &live, options)?;
        call.kind.hooks.admit_delete(&live)?;
        let asked = options.grace_period_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(1));
        let (object, gone) = decide(call, &live, options, asked);
        if call.query.dry_run {
            return Ok(if gone { Outcome::Gone(object) } else { Outcome::Waiting(Object::Value(object)) });
        }
        if !gone && object == live {
            return Ok(Outcome::Waiting(call.read(&entry)));
        }
        match store(call, &entry, &object, gone).await {
            Ok(written) if gone => return Ok(Outcome::Gone(call.value(&written))),
            Ok(written) => return Ok(Outcome::Waiting(call.read(&written))),
            Err(WriteError::Changed(Some(_))) if attempt < ATTEMPTS => {}
            Err(error) => return Err(write::refusal(call, name, &error)),
        }
    }
    unreachable!("the last attempt returns")
}

async fn store(call: &Call, entry: &Entry, object: &Value, gone: bool) -> Result<Arc<Entry>, WriteError> {
    write::put(call, Some(entry), object, gone).await
}

/// The object after the request, and whether that is its end. Pure: same input, same answer.
fn decide(call: &Call, live: &Value, options: &Options, asked: Option<u64>) -> (Value, bool) {
    let hooks = call.kind.hooks;
    let mut object = live.clone();
    let finalizers = finalizers(live, options);
    object::set_finalizers(&mut object, &finalizers);
    let grace = hooks.grace(live, asked);
    let held = !finalizers.is_empty() || hooks.is_held(live);
    if !object::is_deleting(live) {
        if grace == 0 && !held {
            if hooks.is_graceful() {
                mark(&mut object, 0);
            }
            return (object, true);
        }
        mark(&mut object, grace);
        hooks.deleting(&mut object);
        return (object, false);
    }
    let running = live["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    // Grace only shrinks: nobody can prolong the life of what is dying.
    if running > 0 && grace < running {
        shorten(&mut object, live, running, grace);
    }
    let left = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    (object, left == 0 && !held)
}

fn mark(object: &mut Value, grace: u64) {
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(i64::try_from(grace).unwrap_or(i64::MAX / 4));
    let generation = object::generation(object);
    let metadata = object::metadata_mut(object);
    metadata.insert("deletionTimestamp".into(), object::timestamp(until).into());
    metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    if let Some(generation) = generation.filter(|generation| *generation > 0) {
        metadata.insert("generation".into(), json!(generation + 1));
    }
}

fn shorten(object: &mut Value, live: &Value, running: u64, grace: u64) {
    let seconds = |value: u64| i64::try_from(value).unwrap_or(i64::MAX / 4);
    let old =
        object::text(live, "deletionTimestamp").parse::<jiff::Timestamp>().unwrap_or_else(|_| jiff::Timestamp::now());
    let begun = old - jiff::SignedDuration::from_secs(seconds(running));
    let metadata = object::metadata_mut(object);
    let until = begun + jiff::SignedDuration::from_secs(seconds(grace));
    metadata.insert("deletionTimestamp".into(), object::timestamp(until).into());
    metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
}

/// The finalizers after a delete request: the collector's two follow the wish, the rest stays.
fn finalizers(live: &Value, options: &Options) -> Vec<String> {
    let mut finalizers = object::finalizers(live);
    let wish = match (options.propagation_policy.as_deref(), options.orphan_dependents) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(ORPHAN),
        (Some("Foreground"), _) => Some(FOREGROUND),
        (Some(_), _) | (None, Some(false)) => None,
        // No wish: finalizers the object already has express an earlier one.
        (None, None) => return finalizers,
    };
    finalizers.retain(|finalizer| !matches!(finalizer.as_str(), ORPHAN | FOREGROUND));
    finalizers.extend(wish.map(str::to_owned));
    finalizers
}

fn check_preconditions(call: &Call, live: &Value, options: &Options) -> Result<(), Status> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let (uid, revision) = (object::uid(live), object::resource_version(live));
    let conflict = |why: String| Err(Status::conflict(&call.kind.group, &call.kind.kind, object::name(live), why));
    if let Some(wanted) = wanted.uid.as_deref().filter(|wanted| *wanted != uid) {
        return conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        ));
    }
    if let Some(wanted) = wanted.resource_version.as_deref().filter(|wanted| *wanted != revision) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({revision}). The object might have been modified"
        ));
    }
    Ok(())
}

fn success(call: &Call, object: &Value) -> Value {
    let mut details = json!({ "name": object::name(object), "kind": call.kind.plural, "uid": object::uid(object) });
    if !call.kind.group.is_empty() {
        details["group"] = call.kind.group.clone().into();
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
