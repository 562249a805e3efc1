//! The order of a merged list: what the patch says wins, items only the server knows keep their
//! place among the others where they can.

use std::collections::HashMap;

use serde_json::Value;

use super::DIRECTIVE;
use super::list::no_merge_key;
use crate::status::Status;

/// What makes two items the same: the value of the merge key, or the scalar itself.
pub(super) struct Identity<'a> {
    merge_key: Option<&'a str>,
}

impl<'a> Identity<'a> {
    pub(super) fn of(merge_key: Option<&'a str>) -> Self {
        Self { merge_key }
    }

    /// Text that is equal for equal items.
    fn read(&self, item: &Value) -> Result<String, Status> {
        match self.merge_key {
            None => Ok(item.to_string()),
            Some(key) => item.get(key).map(Value::to_string).ok_or_else(|| no_merge_key(item, key)),
        }
    }

    /// First place of each item.
    fn places(&self, items: &[Value]) -> Result<HashMap<String, usize>, Status> {
        let mut places = HashMap::new();
        for (place, item) in items.iter().enumerate() {
            places.entry(self.read(item)?).or_insert(place);
        }
        Ok(places)
    }
}

/// Orders `merged`: items named in `wanted` in that order; the others in the order of `before`,
/// each ahead of the first wanted item that `before` has behind it.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &[Value],
    before: &[Value],
    identity: &Identity,
) -> Result<Vec<Value>, Status> {
    let wanted = identity.places(wanted)?;
    let before = identity.places(before)?;
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let name = identity.read(&item)?;
        match wanted.get(&name) {
            Some(place) => chosen.push((*place, before.get(&name).copied(), item)),
            None => others.push((before.get(&name).copied(), item)),
        }
    }
    chosen.sort_by_key(|(place, ..)| *place);
    // Items that were not there before have nothing to go by and stay behind those that have.
    others.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));

    let mut arranged = Vec::with_capacity(chosen.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in chosen {
        while let Some((_, other)) = others.next_if(|(other, _)| matches!((other, place), (Some(a), Some(b)) if *a < b))
        {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    Ok(arranged)
}

/// Refuses a patch list whose items are not, in their order, part of the `$setElementOrder` list.
pub(super) fn check(patch: &[Value], wanted: &[Value], identity: &Identity) -> Result<(), Status> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut wanted = wanted.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let name = identity.read(item)?;
        loop {
            let Some(next) = wanted.next() else {
                return Err(Status::bad_request(format!(
                    "The order in patch list doesn't match $setElementOrder list: {item} is not where it should be"
                )));
            };
            if identity.read(next)? == name {
                break;
            }
        }
    }
    Ok(())
}
