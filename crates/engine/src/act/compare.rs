//! Whether an object is ours, and whether it already says what we want.

use serde_json::Value;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Whether everything in `wanted` is in `current`; what others added (defaults, status) does not matter.
pub(super) fn contains(current: &Value, wanted: &Value) -> bool {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            wanted.is_null() || current.get(name).is_some_and(|current| contains(current, wanted))
        }),
        (Value::Array(current), Value::Array(wanted)) if wanted.iter().all(|item| item["name"].is_string()) => {
            // Lists of named things (containers, volumes, variables) may hold more than ours.
            let same = |item: &Value| current.iter().find(|present| present["name"] == item["name"]);
            wanted.iter().all(|item| same(item).is_some_and(|present| contains(present, item)))
        }
        (Value::Array(current), Value::Array(wanted)) => {
            current.len() == wanted.len()
                && current.iter().zip(wanted).all(|(current, wanted)| contains(current, wanted))
        }
        _ => current == wanted,
    }
}

/// Why `current` is not ours; `None` when it is. Ours names an owner of `wanted` and has its managed-by label.
pub(super) fn stranger(current: &Value, wanted: &Value) -> Option<String> {
    let owners = |object: &Value| -> Vec<String> {
        let references = object["metadata"]["ownerReferences"].as_array();
        let uids = references.into_iter().flatten().filter_map(|reference| reference["uid"].as_str());
        uids.map(str::to_owned).collect()
    };
    let manager = |object: &Value| object["metadata"]["labels"][MANAGED_BY].as_str().map(str::to_owned);
    let (ours, theirs) = (owners(wanted), owners(current));
    if !ours.is_empty() && !ours.iter().any(|uid| theirs.contains(uid)) {
        return Some("belongs to another owner".to_owned());
    }
    let wanted_manager = manager(wanted)?;
    match manager(current) {
        Some(present) if present == wanted_manager => None,
        Some(present) => Some(format!("is managed by {present}")),
        None => Some("is not managed by us".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn additions_of_others_do_not_count_but_changes_do() {
        let wanted = json!({"spec": {"replicas": 1, "containers": [{"name": "a", "image": "x"}], "args": ["1"]}});
        let defaulted = json!({"spec": {"replicas": 1, "paused": false,
            "containers": [{"name": "side"}, {"name": "a", "image": "x", "tty": false}], "args": ["1"]}, "status": {}});
        assert!(contains(&defaulted, &wanted));
        let mut drifted = defaulted.clone();
        drifted["spec"]["containers"][1]["image"] = json!("y");
        assert!(!contains(&drifted, &wanted));
        let mut longer = defaulted;
        longer["spec"]["args"] = json!(["1", "2"]);
        assert!(!contains(&longer, &wanted));
    }

    #[test]
    fn only_the_same_owner_and_manager_make_it_ours() {
        let object = |owner: &str, manager: &str| json!({"metadata": {"ownerReferences": [{"uid": owner}], "labels": {MANAGED_BY: manager}}});
        assert_eq!(stranger(&object("1", "us"), &object("1", "us")), None);
        assert!(stranger(&object("2", "us"), &object("1", "us")).is_some());
        assert_eq!(stranger(&object("1", "them"), &object("1", "us")).as_deref(), Some("is managed by them"));
        assert!(stranger(&json!({"metadata": {}}), &object("1", "us")).is_some());
    }
}
