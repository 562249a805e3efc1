//! Server-side apply: many writers of one object, each owning its fields.
//!
//! ```text
//!  config ──▶ validate ──▶ merge into live ──▶ prune what is no longer applied ──▶ conflicts? ──▶ object
//!                                                    ▲                                 │
//!  metadata.managedFields ◀── FieldsV1 ──▶ sets of paths by manager ◀──────────────────┘
//! ```
//!
//! Every other write goes through [`update`], which gives the fields it changed to its manager.
//! The rules are those of Kubernetes' structured merge: what a list or map is to the merge is in
//! the schema, and where a schema is silent objects merge and lists are atomic.

mod conflict;
pub mod fields_v1;
mod last_applied;
mod managers;
pub mod path;
mod reconcile;
mod set;
mod shape;
mod typed;
mod updater;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

pub use managers::Operation;
pub use set::Set;

use crate::schema::{Schema, Type};
use crate::status::Status;
use managers::{Identity, Managers, Owned};
use updater::Updater;

/// What the fields of an object may be, and where the request came in.
#[derive(Clone, Copy)]
pub struct Kind<'a> {
    /// The schema in the version of the request.
    pub schema: &'a Schema,
    /// The version of the request, as in `apiVersion`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Other versions that are served, with their schemas.
    pub other_versions: &'a [(&'a str, &'a Schema)],
    /// The subresource written to; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that this endpoint does not write, so nobody comes to own them through it.
    pub ignored: &'a [&'a [&'a str]],
}

/// Who writes, and when (RFC 3339, whole seconds).
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// The time to note, `2026-01-02T03:04:05Z`.
    pub now: &'a str,
}

/// Fields that are never owned.
const SYSTEM_FIELDS: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "clusterName"],
    &["metadata", "creationTimestamp"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "resourceVersion"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
];

static SYSTEM: LazyLock<Set> = LazyLock::new(|| Set::of_fields(SYSTEM_FIELDS));

/// Who owned the fields of an object that nobody managed.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies a configuration. Returns the merged object with its managers; the caller defaults and
/// validates it. `live` is `None` when the object does not exist.
pub fn apply(
    kind: &Kind<'_>,
    live: Option<&Value>,
    config: &Value,
    writer: Writer<'_>,
    force: bool,
) -> Result<Value, Status> {
    check(kind, config)?;
    let nothing = empty(kind);
    let before = live.unwrap_or(&nothing);
    let mut managers = Managers::decode(before)
        .map_err(|error| Status::internal(format!("failed to decode managed fields: {error}")))?;
    let before = without_managers(before);
    if managers.0.is_empty() && live.is_some() {
        let previous = Writer { manager: BEFORE_FIRST_APPLY, ..writer };
        managers = own_changes(kind, &nothing, &before, managers, previous);
    }

    let applier = Identity::new(writer.manager, Operation::Apply, kind.api_version, kind.subresource);
    let updater = Updater::new(kind);
    let outcome = updater.apply(&before, config, managers.clone(), &applier, force).or_else(|conflicts| {
        let allowed = last_applied::owned(kind, &before).filter(|_| writer.manager == last_applied::MANAGER);
        let left = allowed.map_or_else(|| conflicts.except(&Set::default()), |allowed| conflicts.except(&allowed));
        if left.is_empty() { updater.apply(&before, config, managers, &applier, true) } else { Err(left) }
    });
    let (mut object, mut managers) = outcome.map_err(|conflicts| conflicts.to_status())?;

    strip_system_fields(&mut managers, &applier);
    if let Some(owned) = managers.0.get_mut(&applier)
        && !path::equal(&object, &before)
    {
        owned.time = Some(writer.now.to_owned());
    }
    if writer.manager == last_applied::MANAGER {
        last_applied::refresh(&mut object, config);
    }
    managers.encode_into(&mut object);
    Ok(object)
}

/// Notes who owns what after a write that was not an apply. `new` is the object as it will be
/// stored, with the `managedFields` that the client sent, if any.
pub fn update(kind: &Kind<'_>, live: Option<&Value>, new: Value, writer: Writer<'_>) -> Value {
    let nothing = empty(kind);
    let live_object = live.unwrap_or(&nothing);
    let managers = Managers::before_update(live_object, &new, kind.subresource);
    let mut object = new;
    drop_managers(&mut object);
    // An object that nobody manages stays so until the first apply; a new one is managed.
    if managers.0.is_empty() && live.is_some() {
        return object;
    }
    let before = without_managers(live_object);
    let mut managers = own_changes(kind, &before, &object, managers, writer);
    managers.merge_oldest_updaters();
    managers.encode_into(&mut object);
    object
}

/// Undoes a change that is only a change of times: an object that is written again as it is keeps
/// its bytes, and with them its resource version.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(old_managers), Some(new_managers)) = (managed_fields(live), managed_fields(new)) else {
        return;
    };
    let (before, after) = (timeless(old_managers), timeless(new_managers));
    let same = |part: &str, left: &Value, right: &Value| but(part, left).eq(but(part, right));
    let is_same = same("metadata", live, new) && same("managedFields", &live["metadata"], &new["metadata"]);
    if before.eq(after) && is_same {
        new["metadata"]["managedFields"] = old_managers.clone();
    }
}

/// The members of an object but one.
fn but<'a>(part: &'a str, object: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.as_object().into_iter().flatten().filter(move |(name, _)| *name != part)
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// The entries of managers, each without its time.
fn timeless(entries: &Value) -> impl Iterator<Item = Vec<(&String, &Value)>> {
    entries.as_array().into_iter().flatten().map(|entry| but("time", entry).collect())
}

/// Refuses a configuration that cannot be merged.
fn check(kind: &Kind<'_>, config: &Value) -> Result<(), Status> {
    let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default();
    // The core group is written as an empty one.
    let with_group = |version: &str| if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    if text("apiVersion") != kind.api_version || text("kind") != kind.kind {
        let found = format!("{}, Kind={}", with_group(text("apiVersion")), text("kind"));
        return Err(Status::bad_request(format!("invalid object type: {found}")));
    }
    if managed_fields(config).is_some_and(|entries| !entries.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let problems = typed::validate(shape::Node::root(kind.schema), config);
    let words = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let metadata = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
    let group_version = with_group(kind.api_version);
    let subject = format!("{}/{}; {group_version}, Kind={}", metadata("namespace"), metadata("name"), kind.kind);
    Err(Status::bad_request(format!("failed to create typed patch object ({subject}): {words}")))
}

/// Gives the fields that a write changed to its manager.
fn own_changes(kind: &Kind<'_>, live: &Value, new: &Value, managers: Managers, writer: Writer<'_>) -> Managers {
    let (changed, mut managers) = Updater::new(kind).update(live, new, managers);
    let changed = changed.difference(&SYSTEM);
    if !changed.is_empty() {
        let identity = Identity::new(writer.manager, Operation::Update, kind.api_version, kind.subresource);
        let owned = managers.0.entry(identity).or_insert_with(|| Owned {
            fields: Set::default(),
            api_version: kind.api_version.to_owned(),
            time: None,
        });
        owned.fields = std::mem::take(&mut owned.fields).union(changed);
        owned.time = Some(writer.now.to_owned());
    }
    managers
}

fn strip_system_fields(managers: &mut Managers, identity: &Identity) {
    if let Some(owned) = managers.0.get_mut(identity) {
        owned.fields = owned.fields.difference(&SYSTEM);
    }
    managers.drop_empty();
}

fn drop_managers(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

/// A copy without the managers, which are often half of an object.
fn without_managers(object: &Value) -> Value {
    let Some(members) = object.as_object() else { return object.clone() };
    let copy = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        _ => (name.clone(), value.clone()),
    };
    Value::Object(members.iter().map(copy).collect())
}

/// An object of which nothing has been written. Built-in kinds have parts that are always there
/// (Go writes them even when they were never set), so writing into one is not creating it.
fn empty(kind: &Kind<'_>) -> Value {
    let mut object = if kind.schema.name.is_some() { always_there(kind.schema) } else { json!({}) };
    object["metadata"] = Value::Object(Map::new());
    object
}

fn always_there(schema: &Schema) -> Value {
    let parts = schema.properties.iter().filter_map(|(name, property)| {
        if property.value_type == Type::Array && schema.required.contains(name) {
            return Some((name.clone(), Value::Null));
        }
        let part = match property.default.as_ref()? {
            Value::Object(default) if default.is_empty() => always_there(property.resolve()),
            zero if *zero == Value::Null || *zero == json!("") || *zero == json!(0) || *zero == json!(false) => {
                zero.clone()
            }
            _ => return None,
        };
        Some((name.clone(), part))
    });
    Value::Object(parts.collect())
}
