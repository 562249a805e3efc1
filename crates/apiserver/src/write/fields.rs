//! Which fields a request may carry and touch.

use machinery::builtin;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::call::Call;
use crate::decode::Decoded;
use crate::kinds::Kind;
use crate::object;

/// What to do about fields nobody knows (`fieldValidation`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Ignore,
    Warn,
    Strict,
}

fn strictness(call: &Call) -> Result<Strictness, Status> {
    match call.query.field_validation.as_str() {
        "Ignore" => Ok(Strictness::Ignore),
        "" | "Warn" => Ok(Strictness::Warn),
        "Strict" => Ok(Strictness::Strict),
        other => Err(Status::bad_request(format!(
            "invalid query parameter fieldValidation={other:?}: supported values: Ignore, Strict, Warn"
        ))),
    }
}

/// Accepts a whole object from a body: it must be of this kind, and unknown or repeated fields are
/// refused, warned about or dropped as the client asked.
pub fn admit(call: &Call, decoded: Decoded) -> Result<Value, Status> {
    let Decoded { mut value, duplicates } = decoded;
    check_type(&call.kind, &mut value)?;
    refuse_unknown(call, &mut value, &duplicates)?;
    Ok(value)
}

/// Drops what the schema does not know and says so as strictly as the client asked.
pub fn refuse_unknown(call: &Call, object: &mut Value, duplicates: &[String]) -> Result<(), Status> {
    let strictness = strictness(call)?;
    refuse_types(&call.kind, object)?;
    let unknown = match &call.kind.schema {
        Some(schema) => {
            machinery::schema::drop_nulls(schema, object);
            machinery::schema::prune(schema, object)
        }
        None => Vec::new(),
    };
    let words = duplicates
        .iter()
        .map(|path| format!("duplicate field \"{path}\""))
        .chain(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    match strictness {
        Strictness::Ignore => {}
        Strictness::Warn => words.for_each(|text| call.warn(text)),
        Strictness::Strict => {
            let words: Vec<String> = words.collect();
            if !words.is_empty() {
                let why = format!("strict decoding error: {}", words.join(", "));
                return Err(cannot_be_handled(&call.kind, &why));
            }
        }
    }
    Ok(())
}

/// A built-in object with a value of the wrong type is one that cannot be read at all: 400, not the
/// 422 of custom resources.
fn refuse_types(kind: &Kind, object: &Value) -> Result<(), Status> {
    let Some(schema) = kind.schema.as_deref().filter(|_| !kind.custom) else { return Ok(()) };
    let Err(why) = builtin::decode(schema, object) else { return Ok(()) };
    let mut status = cannot_be_handled(kind, &why);
    let causes = machinery::schema::validate(schema, object);
    status.details.causes = causes.into_iter().filter(|cause| cause.reason == "FieldValueTypeInvalid").collect();
    Err(status)
}

/// Fills in what the client left out.
pub fn default(kind: &Kind, object: &mut Value) {
    let Some(schema) = &kind.schema else { return };
    if kind.custom {
        machinery::schema::default(schema, object);
    } else {
        builtin::normalize(schema, object);
        builtin::default(&kind.api_version(), &kind.kind, object);
    }
}

/// 400 for a body that is no object of this kind.
pub fn cannot_be_handled(kind: &Kind, why: &str) -> Status {
    let Kind { kind: name, version, .. } = kind;
    Status::bad_request(format!("{name} in version \"{version}\" cannot be handled as a {name}: {why}"))
}

fn check_type(kind: &Kind, value: &mut Value) -> Result<(), Status> {
    let Some(fields) = value.as_object_mut() else {
        return Err(cannot_be_handled(kind, "the body must be a JSON object"));
    };
    let (given_kind, given_version) = (fields.get("kind").cloned(), fields.get("apiVersion").cloned());
    let expected = kind.api_version();
    match given_kind.as_ref().map(Value::as_str) {
        Some(Some(given)) if given == kind.kind => {}
        // The endpoint knows what it serves; typed clients sometimes leave both out.
        None | Some(Some("")) => {
            fields.insert("kind".into(), kind.kind.clone().into());
        }
        Some(Some(given)) => {
            let version = given_version.as_ref().and_then(Value::as_str).unwrap_or_default();
            let why =
                format!("the object provided is unrecognized (must be of type {}): {given} of {version:?}", kind.kind);
            return Err(cannot_be_handled(kind, &why));
        }
        Some(None) => return Err(cannot_be_handled(kind, "kind must be a string")),
    }
    match given_version.as_ref().map(Value::as_str) {
        Some(Some(given)) if given == expected => {}
        None | Some(Some("")) => {
            fields.insert("apiVersion".into(), expected.into());
        }
        Some(Some(given)) => {
            return Err(Status::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({expected})"
            )));
        }
        Some(None) => return Err(cannot_be_handled(kind, "apiVersion must be a string")),
    }
    match fields.get("metadata") {
        None | Some(Value::Null) => {
            fields.insert("metadata".into(), json!({}));
            Ok(())
        }
        // Names decide where the object goes, long before the schema looks at it.
        Some(Value::Object(metadata)) => {
            let names = ["name", "generateName", "namespace", "uid", "resourceVersion"];
            match names
                .iter()
                .find(|name| metadata.get(**name).is_some_and(|value| !value.is_null() && !value.is_string()))
            {
                Some(name) => Err(cannot_be_handled(kind, &format!("metadata.{name} must be a string"))),
                None => Ok(()),
            }
        }
        Some(_) => Err(cannot_be_handled(kind, "metadata must be an object")),
    }
}

/// Keeps each endpoint to its part of the object: the object's own leaves status alone, `/status`
/// everything else.
pub fn isolate(kind: &Kind, subresource: &str, old: Option<&Value>, object: &mut Value) {
    match (subresource, old) {
        ("", None) if kind.writing.status && !kind.writing.status_on_create => object::put(object, "status", None),
        ("", Some(old)) if kind.writing.status => object::put(object, "status", old.get("status").cloned()),
        ("status", Some(old)) => {
            let mut result = old.clone();
            object::put(&mut result, "status", object.get("status").cloned());
            let carried: &[&str] = if kind.writing.status_metadata {
                &["managedFields", "labels", "annotations"]
            } else {
                &["managedFields"]
            };
            for field in carried {
                let value = object::metadata(object).get(*field).cloned();
                object::put(&mut result["metadata"], field, value);
            }
            *object = result;
        }
        _ => {}
    }
}
