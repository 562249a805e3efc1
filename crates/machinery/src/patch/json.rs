//! JSON patch (RFC 6902), in the dialect of the API server.
//!
//! Kubernetes is laxer than the RFC, and clients rely on it: `replace` of an absent member adds
//! it, `test` of an absent member against `null` holds, `copy` of one copies `null`, and negative
//! indices count from the end of a list. So the operations are ours; the `json-patch` crate, which
//! keeps to the RFC, only computes differences.

use serde::Deserialize;
use serde_json::Value;

use crate::status::Status;

/// The most operations one patch may hold.
pub const MAX_OPERATIONS: usize = 10_000;

/// The most bytes all `copy` operations of one patch may copy: without a limit a short patch that
/// copies a value into itself doubles it with every operation.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    op: String,
    path: Option<String>,
    from: Option<String>,
    #[serde(default)]
    value: Value,
}

/// Applies the operations in order; all of them or none.
pub fn apply(original: &Value, patch: &Value) -> Result<Value, Status> {
    let operations = decode(patch)?;
    let mut document = original.clone();
    let mut copied = 0;
    for (index, operation) in operations.into_iter().enumerate() {
        let kind = operation.op.clone();
        operation.run(&mut document, &mut copied).map_err(|why| {
            let message = "the server rejected our request due to an error in our request";
            Status::new(422, "Invalid", format!("{message}: JSON patch operation {index} ({kind}): {why}"))
        })?;
    }
    Ok(document)
}

fn decode(patch: &Value) -> Result<Vec<Operation>, Status> {
    let Value::Array(items) = patch else {
        return Err(Status::bad_request("error decoding patch: a JSON patch must be a list of operations"));
    };
    if items.len() > MAX_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            items.len()
        )));
    }
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            Operation::deserialize(item)
                .map_err(|error| Status::bad_request(format!("error decoding patch: operation {index}: {error}")))
        })
        .collect()
}

/// The operations that make `target` out of `original`.
pub fn diff(original: &Value, target: &Value) -> Value {
    serde_json::to_value(json_patch::diff(original, target)).expect("operations are plain data")
}

impl Operation {
    fn run(self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        match self.op.as_str() {
            "add" => Place::of(self.path.as_deref(), "path")?.add(document, self.value),
            "remove" => Place::of(self.path.as_deref(), "path")?.remove(document).map(drop),
            "replace" => self.replace(document),
            "test" => self.test(document),
            "move" => {
                let value = Place::of(self.from.as_deref(), "from")?.remove(document)?;
                Place::of(self.path.as_deref(), "path")?.add(document, value)
            }
            "copy" => {
                let value = Place::of(self.from.as_deref(), "from")?.get(document)?.cloned().unwrap_or(Value::Null);
                *copied += value.to_string().len();
                if *copied > MAX_COPIED_BYTES {
                    return Err(format!("the copies of this patch exceed {MAX_COPIED_BYTES} bytes"));
                }
                Place::of(self.path.as_deref(), "path")?.add(document, value)
            }
            other => Err(format!("unexpected kind: {other}")),
        }
    }

    fn replace(self, document: &mut Value) -> Result<(), String> {
        if self.path.as_deref() == Some("") {
            if !self.value.is_object() && !self.value.is_array() {
                return Err("the whole document can only be replaced by an object or a list".to_owned());
            }
            *document = self.value;
            return Ok(());
        }
        let place = Place::of(self.path.as_deref(), "path")?;
        match place.parent_mut(document)? {
            Value::Object(members) => {
                members.insert(place.key, self.value);
            }
            Value::Array(items) => {
                let index = index_of(&place.key, items.len())?;
                items[index] = self.value;
            }
            _ => return Err(place.missing()),
        }
        Ok(())
    }

    fn test(&self, document: &Value) -> Result<(), String> {
        let found = match self.path.as_deref() {
            Some("") => Some(document),
            path => Place::of(path, "path")?.get(document)?,
        };
        if *found.unwrap_or(&Value::Null) == self.value {
            return Ok(());
        }
        Err(format!("testing value {} failed", self.path.as_deref().unwrap_or_default()))
    }
}

/// A place inside a document: the container's pointer and the key within it.
struct Place {
    pointer: String,
    parents: Vec<String>,
    key: String,
}

impl Place {
    fn of(pointer: Option<&str>, field: &str) -> Result<Self, String> {
        let pointer = pointer.ok_or_else(|| format!("\"{field}\" is missing"))?;
        let mut parts: Vec<String> = pointer.split('/').skip(1).map(unescape).collect();
        match parts.pop() {
            Some(key) => Ok(Self { pointer: pointer.to_owned(), parents: parts, key }),
            None => Err(format!("doc is missing path: {pointer:?}")),
        }
    }

    fn missing(&self) -> String {
        format!("doc is missing path: {:?}", self.pointer)
    }

    fn parent_mut<'a>(&self, document: &'a mut Value) -> Result<&'a mut Value, String> {
        self.parents.iter().try_fold(document, |value, part| match value {
            Value::Object(members) => members.get_mut(part).ok_or_else(|| self.missing()),
            Value::Array(items) => {
                let index = index_of(part, items.len())?;
                Ok(&mut items[index])
            }
            _ => Err(self.missing()),
        })
    }

    fn get<'a>(&self, document: &'a Value) -> Result<Option<&'a Value>, String> {
        let parent = self.parents.iter().try_fold(document, |value, part| match value {
            Value::Object(members) => members.get(part).ok_or_else(|| self.missing()),
            Value::Array(items) => index_of(part, items.len()).map(|index| &items[index]),
            _ => Err(self.missing()),
        })?;
        match parent {
            Value::Object(members) => Ok(members.get(&self.key)),
            Value::Array(items) => index_of(&self.key, items.len()).map(|index| items.get(index)),
            _ => Err(self.missing()),
        }
    }

    fn add(self, document: &mut Value, value: Value) -> Result<(), String> {
        match self.parent_mut(document)? {
            Value::Object(members) => {
                members.insert(self.key, value);
            }
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let index = index_of(&self.key, items.len() + 1)?;
                items.insert(index, value);
            }
            _ => return Err(self.missing()),
        }
        Ok(())
    }

    fn remove(&self, document: &mut Value) -> Result<Value, String> {
        match self.parent_mut(document)? {
            Value::Object(members) => {
                members.remove(&self.key).ok_or_else(|| format!("unable to remove nonexistent key: {}", self.key))
            }
            Value::Array(items) => Ok(items.remove(index_of(&self.key, items.len())?)),
            _ => Err(self.missing()),
        }
    }
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Reads a list index; negative ones count from the end.
fn index_of(part: &str, length: usize) -> Result<usize, String> {
    let index: i64 = part.parse().map_err(|_| format!("value was not a proper array index: {part:?}"))?;
    let place = if index < 0 { i64::try_from(length).unwrap_or(i64::MAX) + index } else { index };
    usize::try_from(place)
        .ok()
        .filter(|place| *place < length)
        .ok_or_else(|| format!("unable to access invalid index: {index}"))
}
