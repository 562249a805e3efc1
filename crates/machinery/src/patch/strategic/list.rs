//! Merging lists: by key for objects, as a set for scalars.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::order::{self, Identity};
use super::{DIRECTIVE, Directive, Object, SET_ELEMENT_ORDER, directive, strategy, strip_directives};
use crate::schema::Schema;
use crate::status::Status;

/// Merges a list of `schema`, whose strategy is to merge.
pub(super) fn merge(original: Vec<Value>, patch: Vec<Value>, schema: Option<&Schema>) -> Result<Vec<Value>, Status> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let merge_key = strategy(schema).merge_key;
    if !holds_objects(&original, &patch)? {
        let identity = Identity::of(None);
        let mut seen = HashSet::new();
        let merged = original.iter().chain(&patch).filter(|item| seen.insert(item.to_string())).cloned().collect();
        return order::arrange(merged, &patch, &original, &identity);
    }
    let Some(key) = merge_key else {
        return Err(Status::bad_request("cannot merge lists of objects without a merge key"));
    };
    let items = schema.and_then(|schema| schema.items.as_deref());
    let (original, patch) = obey_item_directives(original, patch, &key)?;
    let merged = merge_objects(original.clone(), &patch, items, &key)?;
    order::arrange(merged, &patch, &original, &Identity::of(Some(&key)))
}

/// Whether the items are objects. All items of both lists must be of one type, and none a list.
fn holds_objects(original: &[Value], patch: &[Value]) -> Result<bool, Status> {
    let mut kinds = original.iter().chain(patch).map(|item| match item {
        Value::Object(_) => Ok("object"),
        Value::String(_) => Ok("string"),
        Value::Number(_) => Ok("number"),
        Value::Bool(_) => Ok("boolean"),
        Value::Null => Err(Status::bad_request("a list that merges cannot hold null")),
        Value::Array(_) => Err(Status::new(422, "Invalid", "lists of lists are not supported")),
    });
    let first = kinds.next().transpose()?;
    for kind in kinds {
        if Some(kind?) != first {
            return Err(Status::bad_request("list element types are not identical"));
        }
    }
    Ok(first == Some("object"))
}

/// Takes the items with `$patch` out of the patch and does what they say.
fn obey_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Status> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut doomed = HashSet::new();
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE).map(directive).transpose()? {
            None => plain.push(item),
            Some(Directive::Delete) => {
                doomed.insert(item.get(key).ok_or_else(|| no_merge_key(&item, key))?.to_string());
            }
            Some(Directive::Replace) => replace = true,
            Some(Directive::Merge) => {
                return Err(Status::bad_request("merging lists cannot yet be specified in the patch"));
            }
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    original.retain(|item| item.get(key).is_none_or(|value| !doomed.contains(&value.to_string())));
    Ok((original, plain))
}

fn merge_objects(
    mut original: Vec<Value>,
    patch: &[Value],
    items: Option<&Schema>,
    key: &str,
) -> Result<Vec<Value>, Status> {
    let mut places = HashMap::new();
    for (place, item) in original.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.to_string()).or_insert(place);
        }
    }
    for item in patch {
        let name = item.get(key).ok_or_else(|| no_merge_key(item, key))?.to_string();
        if let Some(Value::Object(current)) = places.get(&name).map(|place| &mut original[*place]) {
            let changes = item.as_object().cloned().unwrap_or_default();
            *current = super::merge(std::mem::take(current), changes, items)?;
        } else {
            places.insert(name, original.len());
            original.extend(strip_directives(item.clone()));
        }
    }
    Ok(original)
}

pub(super) fn no_merge_key(item: &Value, key: &str) -> Status {
    Status::bad_request(format!("map: {item} does not contain declared merge key: {key}"))
}

/// Obeys `$deleteFromPrimitiveList/…`.
pub(super) fn delete_scalars(original: &mut Object, list: &str, doomed: &Value) -> Result<(), Status> {
    let Value::Array(doomed) = doomed else {
        return Err(Status::bad_request("invalid patch format of primitive list"));
    };
    if let Some(Value::Array(items)) = original.get_mut(list) {
        let doomed: HashSet<String> = doomed.iter().map(Value::to_string).collect();
        items.retain(|item| !doomed.contains(&item.to_string()));
    }
    Ok(())
}

/// Obeys every `$setElementOrder/…`: merges the list it is about and puts it in order. Both are
/// taken out of the patch.
pub(super) fn merge_ordered(original: &mut Object, patch: &mut Object, schema: Option<&Schema>) -> Result<(), Status> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for key in directives {
        let refused = || Status::bad_request("invalid patch format of setElementOrder list");
        let Some(Value::Array(wanted)) = patch.remove(&key) else {
            return Err(refused());
        };
        let name = key.strip_prefix(SET_ELEMENT_ORDER).unwrap_or(&key);
        let changes = patch.remove(name).map(|list| array(list).ok_or_else(refused)).transpose()?;
        let current = original.remove(name).map(|list| array(list).ok_or_else(refused)).transpose()?;
        let list_schema = schema.and_then(|schema| schema.field(name));
        let strategy = strategy(list_schema);
        let identity = Identity::of(strategy.merge_key.as_deref());
        order::check(changes.as_deref().unwrap_or_default(), &wanted, &identity)?;

        let before = current.clone().unwrap_or_default();
        let merged = match (current, changes) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(changes)) => {
                super::without_directives(Value::Array(changes)).and_then(array).unwrap_or_default()
            }
            (Some(current), Some(changes)) if strategy.merge => merge(current, changes, list_schema)?,
            (Some(_), Some(changes)) => changes,
        };
        original.insert(name.to_owned(), Value::Array(order::arrange(merged, &wanted, &before, &identity)?));
    }
    Ok(())
}

fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}
