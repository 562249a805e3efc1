//! The one way into the store. Every write, whatever its verb, passes the same steps in the same
//! order; see [`complete`].

use std::sync::Arc;

use machinery::schema::rules::Rules;
use machinery::status::Status;
use serde_json::Value;
use store::{Action, Change as StoreChange, Entry, Expect, WriteError};

use crate::call::Call;
use crate::hooks::Change;
use crate::object::{self, Object};

mod fields;
mod managed;
mod metadata;

pub use fields::{admit, admit_applied, admit_patched, unrecognized};
pub use managed::apply;

/// How often a write that lost a race is tried again before the client hears of it.
const ATTEMPTS: usize = 16;

/// An object on its way into the store.
pub struct Proposal {
    /// What it should be.
    pub object: Value,
    /// Server-side apply has already decided who manages what.
    pub applied: bool,
}

impl Proposal {
    /// An object as a client sent it.
    pub fn whole(object: Value) -> Self {
        Self { object, applied: false }
    }
}

/// Makes an object that is not there yet.
pub async fn create(call: &Call, proposal: Proposal) -> Result<Object, Status> {
    metadata::refuse_terminating(call)?;
    let generated = object::name(&proposal.object).is_empty();
    if !generated {
        refuse_existing(call, object::name(&proposal.object))?;
    }
    for attempt in 1.. {
        let mut object = proposal.object.clone();
        metadata::begin(call, &mut object)?;
        let object = complete(call, "", None, Proposal { object, applied: proposal.applied })?;
        if call.query.dry_run {
            return Ok(Object::Value(object));
        }
        match commit(call, None, &object).await {
            Ok(entry) => return Ok(call.read(&entry)),
            Err(error) => {
                call.kind.hooks.abandoned(&call.server, &object);
                if !(generated && attempt < ATTEMPTS && matches!(error, WriteError::Exists(_))) {
                    return Err(refusal(call, object::name(&object), &error));
                }
            }
        }
    }
    unreachable!("the last attempt returns")
}

fn refuse_existing(call: &Call, name: &str) -> Result<(), Status> {
    let Some(entry) = call.server.store().get(&call.key(name)?) else { return Ok(()) };
    let mut status = Status::already_exists(&call.kind.group, &call.kind.plural, name);
    if object::is_deleting(&object::parse(&entry.value)) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    Err(status)
}

/// Changes an object that is there. `make` sees the live object and says what it should be; it runs
/// again when another write came in between.
pub async fn modify(
    call: &Call,
    subresource: &str,
    make: impl Fn(&Value) -> Result<Proposal, Status>,
) -> Result<Object, Status> {
    let name = &call.target.name;
    for attempt in 1.. {
        // Those who lost a race take turns, or a crowd would keep each other from ever getting through.
        let _turn = if attempt > 1 { Some(call.server.turn(&call.key(name)?).await) } else { None };
        let entry = call.entry(name)?;
        let live = call.value(&entry);
        let mut proposal = make(&live)?;
        metadata::refuse_stale(call, &live, &proposal.object)?;
        metadata::go_on(call, &live, &mut proposal.object)?;
        let mut object = complete(call, subresource, Some(&live), proposal)?;
        if managed::is_same(&live, &mut object) {
            return Ok(call.read(&entry));
        }
        if call.query.dry_run {
            return Ok(Object::Value(object));
        }
        match commit(call, Some(&entry), &object).await {
            Ok(entry) => return Ok(call.read(&entry)),
            Err(WriteError::Changed(Some(_))) if attempt < ATTEMPTS => {}
            Err(error) => return Err(refusal(call, name, &error)),
        }
    }
    unreachable!("the last attempt returns")
}

/// Everything between what a client wishes and what is stored: unknown fields, the parts a
/// subresource may not touch, defaults, field managers, what the server fills in, validation.
pub fn complete(call: &Call, subresource: &str, old: Option<&Value>, proposal: Proposal) -> Result<Value, Status> {
    let Proposal { mut object, applied } = proposal;
    let kind = &call.kind;
    fields::isolate(kind, subresource, old, &mut object);
    kind.hooks.convert(&mut change(call, subresource, old, &mut object));
    fields::default(kind, &mut object);
    if !applied {
        object = managed::record(call, subresource, old, object);
    }
    kind.hooks.prepare(&mut change(call, subresource, old, &mut object))?;
    validate(call, subresource, old, &object)?;
    if kind.custom {
        let warnings = machinery::meta::finalizer_warnings(&object["metadata"], old.map(|old| &old["metadata"]));
        for text in warnings {
            call.warn(text);
        }
    }
    metadata::count_generation(kind, old, &mut object);
    kind.hooks.reserve(&mut change(call, subresource, old, &mut object))?;
    Ok(object)
}

fn change<'a>(call: &'a Call, subresource: &'a str, old: Option<&'a Value>, object: &'a mut Value) -> Change<'a> {
    Change { server: &call.server, user: &call.user, object, old, subresource, dry_run: call.query.dry_run }
}

fn validate(call: &Call, subresource: &str, old: Option<&Value>, object: &Value) -> Result<(), Status> {
    let kind = &call.kind;
    let mut causes = metadata::validate(kind, object, old);
    causes.extend(kind.hooks.validate(object, old, subresource));
    match &kind.schema {
        Some(schema) if kind.custom => match kind.rules.as_deref().map(Rules::get).transpose() {
            Err(broken) => causes.extend_from_slice(broken),
            Ok(rules) => causes.extend(match old.filter(|_| subresource == "status") {
                Some(old) => machinery::schema::judge_status(schema, rules, object, old),
                None => machinery::schema::judge(schema, rules, object, old),
            }),
        },
        Some(schema) => {
            causes.extend(machinery::schema::validate(schema, object));
            if subresource.is_empty() {
                causes.extend(machinery::builtin::validate(&kind.api_version(), &kind.kind, object, old));
            }
        }
        None => {}
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&kind.group, &kind.kind, object::name(object), causes))
}

/// Writes an object, or lets it go when it was only waiting for its last finalizer.
async fn commit(call: &Call, old: Option<&Entry>, object: &Value) -> Result<Arc<Entry>, WriteError> {
    let released = old.is_some() && is_released(call, object);
    put(call, old, object, released).await
}

fn is_released(call: &Call, object: &Value) -> bool {
    let waits = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0) > 0;
    object::is_deleting(object) && !waits && object::finalizers(object).is_empty() && !call.kind.hooks.is_held(object)
}

/// Writes or deletes, then tells the kind's own code.
pub async fn put(call: &Call, old: Option<&Entry>, object: &Value, delete: bool) -> Result<Arc<Entry>, WriteError> {
    let key = call.key(object::name(object)).map_err(|status| WriteError::Refused(status.message))?;
    let draft = if call.kind.reads_stored_bytes() {
        object::draft(object)
    } else {
        let mut stored = object.clone();
        call.kind.to_stored(&mut stored);
        object::draft(&stored)
    };
    let action = if delete { Action::Delete(draft) } else { Action::Put(draft) };
    let expect = old.map_or(Expect::Absent, |entry| Expect::At(entry.revision));
    let entry = call.server.store().write(StoreChange { key, expect, action }).await?;
    call.kind.hooks.written(&call.server, object, delete);
    Ok(entry)
}

/// What a client reads when the store said no.
pub fn refusal(call: &Call, name: &str, error: &WriteError) -> Status {
    match error {
        WriteError::Exists(_) => Status::already_exists(&call.kind.group, &call.kind.plural, name),
        WriteError::Changed(Some(_)) => call.conflict(
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        ),
        WriteError::Changed(None) => call.not_found(name),
        WriteError::Full(_) => {
            let mut status = Status::new(507, "InsufficientStorage", format!("{error}"));
            status.details.retry_after_seconds = Some(5);
            status
        }
        WriteError::Refused(_) | WriteError::Stopped(_) => Status::new(503, "ServiceUnavailable", error.to_string()),
    }
}
