//! Which fields a request may carry and touch.

use machinery::builtin;
use machinery::field;
use machinery::status::{Cause, Status};
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

fn strictness(call: &Call) -> Strictness {
    match call.query.field_validation.as_str() {
        "Ignore" => Strictness::Ignore,
        "Strict" => Strictness::Strict,
        // Anything else was refused with the other options.
        _ => Strictness::Warn,
    }
}

/// Accepts an applied configuration: server-side apply itself refuses what the schema does not
/// know, in its own words, so only strict decoding is asked here.
pub fn admit_applied(call: &Call, decoded: Decoded) -> Result<Value, Status> {
    let Decoded { mut value, duplicates } = decoded;
    if !value.is_object() {
        return Err(Status::bad_request("error decoding YAML: the body must be an object"));
    }
    if let Some(schema) = &call.kind.schema {
        machinery::schema::drop_nulls(schema, &mut value);
    }
    if strictness(call) == Strictness::Strict {
        refuse_unknown(call, &mut value.clone(), &duplicates).map_err(|why| why.into_status(&call.kind))?;
    }
    Ok(value)
}

/// Accepts a whole object from a body: it must be of this kind, and unknown or repeated fields are
/// refused, warned about or dropped as the client asked.
pub fn admit(call: &Call, decoded: Decoded) -> Result<Value, Status> {
    let Decoded { mut value, duplicates } = decoded;
    check_type(&call.kind, &mut value)?;
    refuse_unknown(call, &mut value, &duplicates).map_err(|why| why.into_status(&call.kind))?;
    Ok(value)
}

/// Why an object cannot be read.
struct Unreadable {
    why: String,
    causes: Vec<Cause>,
}

impl Unreadable {
    /// 400, as for a body.
    fn into_status(self, kind: &Kind) -> Status {
        let mut status = cannot_be_handled(kind, &self.why);
        status.details.causes = self.causes;
        status
    }

    /// 422 about the object that a patch made.
    fn into_patch_status(self, object: &Value) -> Status {
        let text = format!("Invalid value: {}: {}", field::quote(&object.to_string()), self.why);
        let cause = Cause { reason: "FieldValueInvalid".into(), message: text, field: "patch".into() };
        Status::invalid("", "", "", vec![cause])
    }
}

/// Accepts the object that a patch made.
pub fn admit_patched(call: &Call, object: &mut Value, duplicates: &[String]) -> Result<(), Status> {
    let readable = refuse_types(&call.kind, object).and_then(|()| refuse_unknown(call, object, duplicates));
    readable.map_err(|why| why.into_patch_status(object))
}

/// Drops what the schema does not know and says so as strictly as the client asked.
fn refuse_unknown(call: &Call, object: &mut Value, duplicates: &[String]) -> Result<(), Unreadable> {
    let strictness = strictness(call);
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
                return Err(Unreadable { why, causes: Vec::new() });
            }
        }
    }
    Ok(())
}

/// A built-in object with a value of the wrong type is one that cannot be read at all: 400, not the
/// 422 of custom resources.
fn refuse_types(kind: &Kind, object: &Value) -> Result<(), Unreadable> {
    let Some(schema) = kind.schema.as_deref().filter(|_| !kind.custom) else { return Ok(()) };
    let Err(why) = builtin::decode(schema, object) else { return Ok(()) };
    let causes = machinery::schema::validate(schema, object);
    let causes = causes.into_iter().filter(|cause| cause.reason == "FieldValueTypeInvalid").collect();
    Err(Unreadable { why, causes })
}

/// Fills in what the client left out.
pub fn default(kind: &Kind, object: &mut Value) {
    let Some(schema) = &kind.schema else { return };
    if kind.custom {
        machinery::schema::default(schema, object);
    } else {
        // Both forms ask to forget all managers; the empty list would be dropped with other empty fields.
        if object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty) {
            object["metadata"]["managedFields"] = json!([{}]);
        }
        builtin::normalize(schema, object);
        builtin::default(&kind.api_version(), &kind.kind, object);
    }
}

/// 400 for a body that is no object at all.
pub fn unrecognized(kind: &Kind, why: &str) -> Status {
    Status::bad_request(format!("the object provided is unrecognized (must be of type {}): {why}", kind.kind))
}

/// 400 for a body that is no object of this kind.
pub fn cannot_be_handled(kind: &Kind, why: &str) -> Status {
    let Kind { kind: name, version, .. } = kind;
    Status::bad_request(format!("{name} in version \"{version}\" cannot be handled as a {name}: {why}"))
}

fn check_type(kind: &Kind, value: &mut Value) -> Result<(), Status> {
    if !value.is_object() {
        return Err(unrecognized(kind, "couldn't get version/kind; json parse error: the body must be a JSON object"));
    }
    refuse_types(kind, value).map_err(|why| why.into_status(kind))?;
    let Some(fields) = value.as_object_mut() else { return Ok(()) };
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
            return Err(Status::bad_request(format!(
                "{given} in version {version:?} cannot be handled as a {}: it is another kind",
                kind.kind
            )));
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
