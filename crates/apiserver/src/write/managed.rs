//! Field managers, and whether a write changes anything at all.

use machinery::apply::{self, Writer};
use machinery::status::Status;
use serde_json::Value;

use crate::call::Call;
use crate::kinds::{Kind, Table};
use crate::object;

/// Runs `with` with what server-side apply has to know about the kind and the endpoint.
fn described<T>(call: &Call, subresource: &str, with: impl FnOnce(&apply::Kind<'_>) -> T) -> Option<T> {
    let kind = &call.kind;
    let schema = kind.schema.as_deref()?;
    let table = call.server.kinds().table();
    let others = other_versions(&table, kind);
    let others: Vec<(&str, &machinery::schema::Schema)> =
        others.iter().filter_map(|(version, row)| Some((version.as_str(), row.schema.as_deref()?))).collect();
    let ignored: &[&[&str]] = match subresource {
        "" if kind.writing.status => &[&["status"]],
        "status" if kind.writing.status_metadata => &[&["spec"]],
        "status" => &[&["spec"], &["metadata", "labels"], &["metadata", "annotations"]],
        _ => &[],
    };
    let described = apply::Kind {
        schema,
        api_version: &kind.api_version(),
        kind: &kind.kind,
        other_versions: &others,
        subresource,
        ignored,
    };
    Some(with(&described))
}

/// Rows of the same resource in other versions: managed fields may speak of them.
fn other_versions<'a>(table: &'a Table, kind: &Kind) -> Vec<(String, &'a Kind)> {
    let same = |row: &Kind| row.group == kind.group && row.plural == kind.plural && row.version != kind.version;
    table.iter().filter(|row| same(row)).map(|row| (row.api_version(), &**row)).collect()
}

/// The live object with a configuration applied to it.
pub fn apply(call: &Call, live: Option<&Value>, config: &Value) -> Result<Value, Status> {
    let now = object::now();
    let writer = Writer { manager: &call.query.field_manager, now: &now };
    let force = call.query.force.unwrap_or(false);
    described(call, &call.target.subresource, |kind| apply::apply(kind, live, config, writer, force))
        .unwrap_or_else(|| Err(Status::unsupported_media_type("this kind has no schema, so it cannot be applied")))
}

/// Records who manages what after a write that was no apply.
pub fn record(call: &Call, subresource: &str, old: Option<&Value>, object: Value) -> Value {
    let (manager, now) = (call.field_manager(), object::now());
    let writer = Writer { manager: &manager, now: &now };
    let mut taken = Some(object);
    let recorded =
        described(call, subresource, |kind| apply::update(kind, old, taken.take().expect("called once"), writer));
    recorded.or(taken).expect("one of the two holds the object")
}

/// Whether a write changes nothing but the times of field managers.
pub fn is_same(old: &Value, new: &mut Value) -> bool {
    apply::keep_times(old, new);
    old == new
}
