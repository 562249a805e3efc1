//! Reading and writing the metadata of an object, and its stored form.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use store::Draft;

/// An object on its way out: stored bytes when nobody needed to look inside, a value otherwise.
#[derive(Clone, Debug)]
pub enum Object {
    /// As stored, which is as sent.
    Bytes(Bytes),
    /// Taken apart.
    Value(Value),
}

impl Object {
    /// The object taken apart.
    pub fn into_value(self) -> Value {
        match self {
            Self::Bytes(bytes) => parse(&bytes),
            Self::Value(value) => value,
        }
    }

    /// The object as sent.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Value(value) => Bytes::from(value.to_string()),
        }
    }
}

/// Parses what the store holds, which is always JSON that we wrote.
pub fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("the store holds the JSON we wrote")
}

/// `metadata`, empty when absent.
pub fn metadata(object: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// `metadata` to change; made when absent. The object must be a JSON object.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().expect("just made an object")
}

/// A string field of the metadata, empty when absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).get(field).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.name`
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// Whether deletion has begun.
pub fn is_deleting(object: &Value) -> bool {
    metadata(object).get("deletionTimestamp").is_some_and(|value| !value.is_null())
}

/// `metadata.generation`
pub fn generation(object: &Value) -> Option<i64> {
    metadata(object).get("generation").and_then(Value::as_i64)
}

/// `metadata.finalizers`
pub fn finalizers(object: &Value) -> Vec<String> {
    strings(metadata(object).get("finalizers"))
}

/// Replaces `metadata.finalizers`.
pub fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

/// The strings of a list; anything else in it is left out.
pub fn strings(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .map(|items| items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Sets a field of an object, or removes it when there is no value.
pub fn put(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => {
            fields.insert(field.to_owned(), value);
        }
        None => {
            fields.remove(field);
        }
    }
}

/// The bytes around the resourceVersion that the store will put in.
pub fn draft(object: &Value) -> Draft {
    let mut before = Vec::with_capacity(128);
    let mut after = Vec::with_capacity(1024);
    before.push(b'{');
    for field in ["apiVersion", "kind"] {
        if let Some(value) = object.get(field) {
            write_field(&mut before, field, value);
            before.push(b',');
        }
    }
    before.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
    after.push(b'"');
    for (field, value) in metadata(object).iter().filter(|(field, _)| *field != "resourceVersion") {
        after.push(b',');
        write_field(&mut after, field, value);
    }
    after.push(b'}');
    let rest = object.as_object().into_iter().flatten();
    for (field, value) in rest.filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata")) {
        after.push(b',');
        write_field(&mut after, field, value);
    }
    after.push(b'}');
    Draft { before: before.into(), after: after.into() }
}

fn write_field(out: &mut Vec<u8>, field: &str, value: &Value) {
    serde_json::to_writer(&mut *out, field).expect("writing to memory");
    out.push(b':');
    serde_json::to_writer(out, value).expect("writing to memory");
}

/// The current time as metadata spells it: whole seconds.
pub fn now() -> String {
    timestamp(jiff::Timestamp::now())
}

/// A time as metadata spells it: whole seconds.
pub fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_keeps_every_field_and_leaves_room_for_the_revision() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "\"quoted\""},
            "metadata": {"name": "x", "resourceVersion": "7", "labels": {"l": "v"}},
        });
        let draft = draft(&object);
        let whole = [&draft.before[..], b"42", &draft.after[..]].concat();
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(serde_json::from_slice::<Value>(&whole).ok(), Some(expected));
    }
}
