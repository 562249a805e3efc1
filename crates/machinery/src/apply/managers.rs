//! `metadata.managedFields`: who owns what.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fields_v1;
use super::set::Set;

/// How many entries of updates an object keeps before the oldest are merged into one.
const MAX_UPDATERS: usize = 10;
const MERGED_UPDATERS: &str = "ancient-changes";
/// Where an entry has its fields.
const FIELDS: &str = "fieldsV1";

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// What tells one entry from another. An applier is the same in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Empty for appliers.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Identity {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Owned {
    pub(super) fields: Set,
    pub(super) api_version: String,
    pub(super) time: Option<String>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(pub(super) BTreeMap<Identity, Owned>);

/// One entry as it is written, but for the tree `fieldsV1`, which is neither copied nor read twice.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    manager: String,
    operation: Operation,
    api_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    fields_type: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subresource: String,
}

impl Managers {
    /// Reads the managers of an object; an object without entries has none.
    pub(super) fn decode(object: &Value) -> Result<Self, String> {
        let Some(entries) = entries(object) else {
            return Ok(Self::default());
        };
        let mut managers = BTreeMap::new();
        for (place, written) in entries.iter().enumerate() {
            let entry = Entry::deserialize(written).map_err(|error| format!("entry {place}: {error}"))?;
            if entry.api_version.is_empty() {
                return Err(format!("entry {place}: apiVersion must not be empty"));
            }
            if entry.fields_type != "FieldsV1" {
                return Err(format!("entry {place}: invalid fieldsType {:?}", entry.fields_type));
            }
            let tree = written.get(FIELDS).filter(|tree| !tree.is_null());
            let fields = tree.map_or_else(|| Ok(Set::default()), fields_v1::decode);
            let fields = fields.map_err(|error| format!("entry {place}: {error}"))?;
            let identity = Identity::new(&entry.manager, entry.operation, &entry.api_version, &entry.subresource);
            managers.insert(identity, Owned { fields, api_version: entry.api_version, time: entry.time });
        }
        Ok(Self(managers))
    }

    /// The managers that hold before an update. What the client sent counts when it makes sense,
    /// so that managers can be edited; a client that knows nothing of them does not lose them.
    pub(super) fn before_update(live: &Value, new: &Value, subresource: &str) -> Self {
        let of_live = || Self::decode(live).unwrap_or_default();
        if !subresource.is_empty() {
            return of_live();
        }
        if is_reset(new) {
            return Self::default();
        }
        match Self::decode(new) {
            Ok(managers) if !managers.0.is_empty() => managers,
            _ => of_live(),
        }
    }

    /// Writes the managers into an object, in the order of operation, time and name.
    pub(super) fn encode_into(self, object: &mut Value) {
        let Some(metadata) = object.as_object_mut().and_then(|object| {
            let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            metadata.as_object_mut()
        }) else {
            return;
        };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        let mut entries: Vec<(Identity, Owned)> = self.0.into_iter().collect();
        entries.sort_by_cached_key(|(identity, owned)| {
            let Identity { manager, operation, subresource, .. } = identity.clone();
            (operation, seconds(owned), manager, owned.api_version.clone(), subresource)
        });
        let entries = entries.into_iter().map(|(identity, owned)| {
            let mut entry = json!(Entry {
                manager: identity.manager,
                operation: identity.operation,
                api_version: owned.api_version,
                time: owned.time,
                fields_type: "FieldsV1".to_owned(),
                subresource: identity.subresource,
            });
            entry[FIELDS] = fields_v1::encode(&owned.fields);
            entry
        });
        metadata.insert("managedFields".to_owned(), entries.collect());
    }

    /// Merges the oldest updaters of each version until there are few enough.
    pub(super) fn merge_oldest_updaters(&mut self) {
        let mut updaters: Vec<(i64, Identity)> = self
            .0
            .iter()
            .filter(|(identity, _)| identity.operation == Operation::Update)
            .map(|(identity, owned)| (seconds(owned), identity.clone()))
            .collect();
        updaters.sort();
        let mut surplus = updaters.len().saturating_sub(MAX_UPDATERS);
        let mut first_of_version: BTreeMap<String, Identity> = BTreeMap::new();
        for (_, identity) in updaters {
            if surplus == 0 {
                return;
            }
            let version = identity.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, identity);
                continue;
            };
            let bucket = Identity::new(MERGED_UPDATERS, Operation::Update, &version, "");
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if let Some(newer) = self.0.remove(&identity)
                && let Some(merged) = self.0.get_mut(&bucket)
            {
                merged.fields = std::mem::take(&mut merged.fields).union(newer.fields);
                merged.time = newer.time;
                surplus -= 1;
            }
        }
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|_, owned| !owned.fields.is_empty());
    }
}

fn entries(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

/// Whether the client asks to forget all managers: `[]` or `[{}]`.
fn is_reset(object: &Value) -> bool {
    match entries(object).map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(only)]) => only.is_empty(),
        _ => false,
    }
}

fn seconds(owned: &Owned) -> i64 {
    let time = owned.time.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
    time.map_or(0, jiff::Timestamp::as_second)
}
