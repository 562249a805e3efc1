//! What a definition's status says: whether its names are free and it is served.

use serde_json::{Value, json};

use crate::kinds::Table;
use crate::object;

/// Whether a condition holds.
pub fn is_true(definition: &Value, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

fn find<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    definition["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Writes what the table says about the definition into its status.
pub fn judge(table: &Table, definition: &mut Value) {
    let conflicts = super::name_conflicts(table, definition);
    let spec_names = definition["spec"]["names"].clone();
    if conflicts.is_empty() {
        set(definition, "NamesAccepted", true, "NoConflicts", "no conflicts found");
        set(definition, "Established", true, "InitialNamesAccepted", "the initial names have been accepted");
        definition["status"]["acceptedNames"] = spec_names;
    } else {
        let (reason, _) = conflicts[0];
        let words: Vec<String> = conflicts.iter().map(|(_, name)| format!("\"{name}\" is already in use")).collect();
        set(definition, "NamesAccepted", false, reason, &words.join(", "));
        if !is_true(definition, "Established") {
            set(definition, "Established", false, "NotAccepted", "not all names are accepted");
            definition["status"]["acceptedNames"] = json!({ "plural": "", "kind": "" });
        }
    }
    remember_storage(definition);
}

/// Objects may be stored in any version that ever was the storage version.
fn remember_storage(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let Some(current) =
        versions.filter(|version| version["storage"] == true).find_map(|version| version["name"].as_str())
    else {
        return;
    };
    let mut stored = object::strings(definition["status"].get("storedVersions"));
    if !stored.iter().any(|version| version == current) {
        stored.push(current.to_owned());
        definition["status"]["storedVersions"] = json!(stored);
    }
}

/// Sets a condition; its time moves only when its status does.
pub fn set(definition: &mut Value, kind: &str, holds: bool, reason: &str, message: &str) {
    let status = if holds { "True" } else { "False" };
    let since = find(definition, kind)
        .filter(|condition| condition["status"] == status)
        .map_or_else(|| json!(object::now()), |condition| condition["lastTransitionTime"].clone());
    let condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let conditions = definition["status"]["conditions"].as_array_mut().expect("just made a list");
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
}
