//! What the server decides about metadata: names, uids, times, generations, and who may write where.

use machinery::field::Path;
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use crate::call::Call;
use crate::kinds::Kind;
use crate::object;
use crate::request::Verb;

/// System fields of a new object.
pub fn begin(call: &Call, object: &mut Value) -> Result<(), Status> {
    place(call, object)?;
    if !matches!(object::resource_version(object), "" | "0") {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let name = match (object::name(object), object::text(object, "generateName")) {
        ("", "") => {
            let cause = Cause {
                reason: "FieldValueRequired".into(),
                message: "Required value: name or generateName is required".into(),
                field: "metadata.name".into(),
            };
            return Err(Status::invalid(&call.kind.group, &call.kind.kind, "", vec![cause]));
        }
        ("", base) => machinery::meta::generate_name(base, rand::random()),
        (name, _) => name.to_owned(),
    };
    let metadata = object::metadata_mut(object);
    metadata.remove("resourceVersion");
    if call.kind.writing.generation {
        metadata.remove("generation");
    }
    metadata.insert("name".into(), name.into());
    machinery::meta::fill_on_create(metadata, &uuid::Uuid::now_v7().to_string(), &object::now());
    Ok(())
}

/// System fields of a changed object: the live ones, whatever the client sent or left out.
pub fn go_on(call: &Call, live: &Value, object: &mut Value) -> Result<(), Status> {
    place(call, object)?;
    let name = object::name(object);
    if !name.is_empty() && name != object::name(live) {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            object::name(live)
        )));
    }
    let uid = object::uid(object);
    // A replacement means one object; a patch that changes the uid is refused as any other change of it.
    if !uid.is_empty() && uid != object::uid(live) && call.target.verb == Verb::Update {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", object::uid(live));
        return Err(call.conflict(object::name(live), why));
    }
    let old = object::metadata(live).clone();
    let metadata = object::metadata_mut(object);
    metadata.remove("selfLink");
    // Absent means unchanged. What differs is refused by `validate`, which compares with the live object.
    metadata.remove("creationTimestamp");
    for field in ["name", "uid", "creationTimestamp"] {
        if metadata.get(field).is_none_or(Value::is_null) {
            metadata.insert(field.into(), old.get(field).cloned().unwrap_or_default());
        }
    }
    // A deletion cannot be taken back, nor begun with a write.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"] {
        match old.get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    Ok(())
}

/// 409 when the client saw another version than the live one, 422 when it must say and did not.
pub fn refuse_stale(call: &Call, live: &Value, object: &Value) -> Result<(), Status> {
    let (seen, current) = (object::resource_version(object), object::resource_version(live));
    match seen {
        "" | "0" if call.kind.writing.strict_update && call.target.verb == Verb::Update => {
            let cause = Cause {
                reason: "FieldValueInvalid".into(),
                message: "Invalid value: 0: must be specified for an update".into(),
                field: "metadata.resourceVersion".into(),
            };
            Err(Status::invalid(&call.kind.group, &call.kind.plural, object::name(live), vec![cause]))
        }
        "" | "0" => Ok(()),
        seen if seen == current => Ok(()),
        _ => Err(call.conflict(
            object::name(live),
            "the object has been modified; please apply your changes to the latest version and try again",
        )),
    }
}

/// Puts the object where the request says, and refuses one that belongs elsewhere.
fn place(call: &Call, object: &mut Value) -> Result<(), Status> {
    let expected = call.namespace().to_owned();
    let given = object::namespace(object).to_owned();
    if !call.kind.namespaced {
        object::metadata_mut(object).remove("namespace");
        return Ok(());
    }
    if !given.is_empty() && given != expected {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object::metadata_mut(object).insert("namespace".into(), expected.into());
    Ok(())
}

/// New objects need a namespace that is there and stays.
pub fn refuse_terminating(call: &Call) -> Result<(), Status> {
    let namespace = call.namespace();
    if namespace.is_empty() {
        return Ok(());
    }
    let key = store::Key::new("/namespaces", "", namespace);
    let Some(entry) = call.server.store().get(&key) else {
        return Err(Status::not_found("", "namespaces", namespace));
    };
    if !object::is_deleting(&object::parse(&entry.value)) {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = call.forbidden(&call.target.name, why);
    status.details.causes.push(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    });
    Err(status)
}

/// The rules for metadata of any kind.
pub fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let path = Path::new("metadata");
    match old {
        None => machinery::meta::validate_create(&object["metadata"], kind.namespaced, kind.name_rule, &path),
        Some(old) => machinery::meta::validate_update(&object["metadata"], &old["metadata"], &path),
    }
}

/// The generation moves when anything but metadata and status does.
pub fn count_generation(kind: &Kind, old: Option<&Value>, object: &mut Value) {
    if !kind.writing.generation {
        return;
    }
    let next = match old {
        None => 1,
        Some(old) => {
            let current = object::generation(old).unwrap_or(0);
            if is_specified_alike(kind, old, object) { current } else { current + 1 }
        }
    };
    if next > 0 {
        object::metadata_mut(object).insert("generation".into(), json!(next));
    }
}

fn is_specified_alike(kind: &Kind, old: &Value, new: &Value) -> bool {
    if !kind.custom {
        return old.get("spec") == new.get("spec");
    }
    let counts = |field: &str| {
        let apart = matches!(field, "metadata" | "apiVersion" | "kind") || (kind.writing.status && field == "status");
        !apart
    };
    let part = |object: &Value| -> serde_json::Map<String, Value> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(field, _)| counts(field)).map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    part(old) == part(new)
}
