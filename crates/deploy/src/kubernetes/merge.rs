//! An update of an object that others write too: our part is replaced, the rest stays; and what that changes, field by field.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::MANAGER;
use crate::change::FieldChange;

/// The live object with our part in it: labels are ours one by one, every other section that we write is ours as a whole.
pub fn merge(live: &Value, body: &Value) -> Value {
    let mut merged = live.clone();
    for (section, wanted) in body.as_object().into_iter().flatten() {
        if !matches!(section.as_str(), "apiVersion" | "kind" | "metadata") {
            merged[section] = wanted.clone();
        }
    }
    let wanted = body["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let mut labels = live["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    for former in own_labels(live).filter(|label| !wanted.contains_key(label)) {
        labels.remove(&former);
    }
    labels.extend(wanted);
    merged["metadata"]["labels"] = Value::Object(labels);
    merged
}

/// The labels that we have set.
fn own_labels(live: &Value) -> impl Iterator<Item = String> {
    let ours = managers(live).filter(|entry| entry["manager"] == MANAGER);
    let fields = ours.filter_map(|entry| entry["fieldsV1"]["f:metadata"]["f:labels"].as_object());
    let names = fields.flat_map(Map::keys).filter_map(|field| field.strip_prefix("f:").map(str::to_owned));
    names.collect::<Vec<_>>().into_iter()
}

fn managers(live: &Value) -> impl Iterator<Item = &Value> {
    live["metadata"]["managedFields"].as_array().into_iter().flatten()
}

/// One step of a path.
#[derive(Clone)]
enum Step {
    Field(String),
    Item(usize),
    /// Into a text that holds JSON.
    Text,
}

/// What differs between an object and what it will be, without what the server keeps for itself.
pub fn fields(live: &Value, after: &Value) -> Vec<FieldChange> {
    let view = |object: &Value| {
        let mut view = object.as_object().cloned().unwrap_or_default();
        view.remove("status");
        let labels = object["metadata"]["labels"].clone();
        view.insert("metadata".into(), serde_json::json!({ "labels": labels }));
        Value::Object(view)
    };
    let mut found = Vec::new();
    compare(Some(&view(live)), Some(&view(after)), &mut Vec::new(), &mut found);
    found
        .into_iter()
        .map(|(path, before, after)| {
            let manager = before.as_ref().and_then(|_| manager_of(live, &path));
            FieldChange { path: shown(&path), before, after, manager }
        })
        .collect()
}

type Difference = (Vec<Step>, Option<Value>, Option<Value>);

fn compare(before: Option<&Value>, after: Option<&Value>, path: &mut Vec<Step>, found: &mut Vec<Difference>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(one)), Some(Value::Object(two))) => {
            let names = one.keys().chain(two.keys().filter(|name| !one.contains_key(*name)));
            for name in names {
                path.push(Step::Field(name.clone()));
                compare(one.get(name), two.get(name), path, found);
                path.pop();
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(two))) => {
            for at in 0..one.len().max(two.len()) {
                path.push(Step::Item(at));
                compare(one.get(at), two.get(at), path, found);
                path.pop();
            }
        }
        (Some(Value::String(one)), Some(Value::String(two))) => match (document(one), document(two)) {
            // A pack is one long text; what changed is inside.
            (Some(one), Some(two)) if one != two => {
                path.push(Step::Text);
                compare(Some(&one), Some(&two), path, found);
                path.pop();
            }
            _ => found.push((path.clone(), before.cloned(), after.cloned())),
        },
        _ => found.push((path.clone(), before.cloned(), after.cloned())),
    }
}

fn document(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Text => {}
            Step::Item(at) => drop(write!(text, "[{at}]")),
            Step::Field(name) if name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Step::Field(name) => drop(write!(text, "[{name:?}]")),
        }
    }
    text
}

/// Who set what is at a path, if it was not us: the last one to have done so.
fn manager_of(live: &Value, path: &[Step]) -> Option<String> {
    let owners = managers(live).filter(|entry| entry["subresource"].is_null() && owns(&entry["fieldsV1"], path));
    // Who writes last owns alone, unless both say the same.
    let last = owners.max_by_key(|entry| entry["time"].as_str())?;
    last["manager"].as_str().filter(|manager| *manager != MANAGER).map(str::to_owned)
}

/// Whether a set of fields has this one, or all of what it is part of. Items of lists are not told apart.
fn owns(fields: &Value, path: &[Step]) -> bool {
    let mut at = fields;
    for step in path {
        let Step::Field(name) = step else { return true };
        match at.get(format!("f:{name}")) {
            Some(below) => at = below,
            None => return false,
        }
        if at.as_object().is_some_and(Map::is_empty) {
            return true;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn live() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "finalizers": ["theirs"], "resourceVersion": "7",
                "labels": { "ours": "1", "former": "x", "theirs": "y" },
                "managedFields": [
                    { "manager": MANAGER, "operation": "Update", "time": "2026-01-01T00:00:00Z",
                      "fieldsV1": { "f:metadata": { "f:labels": { "f:ours": {}, "f:former": {} } }, "f:spec": { "f:pack": {} } } },
                    { "manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T00:00:00Z",
                      "fieldsV1": { "f:spec": { "f:runtime": { "f:replicas": {} } } } },
                    { "manager": "operator", "operation": "Update", "subresource": "status", "time": "2026-01-03T00:00:00Z",
                      "fieldsV1": { "f:status": { "f:phase": {} } } },
                ],
            },
            "spec": { "pack": "a", "runtime": { "replicas": 5 } },
            "status": { "phase": "Running" },
        })
    }

    #[test]
    fn what_others_wrote_stays() {
        let body = json!({ "metadata": { "name": "a", "labels": { "ours": "2" } }, "spec": { "pack": "b" } });
        let merged = merge(&live(), &body);
        assert_eq!(merged["metadata"]["labels"], json!({ "ours": "2", "theirs": "y" }));
        assert_eq!(merged["metadata"]["finalizers"], json!(["theirs"]));
        assert_eq!(merged["metadata"]["resourceVersion"], "7");
        assert_eq!((&merged["spec"], &merged["status"]), (&json!({ "pack": "b" }), &live()["status"]));
        assert_eq!(merge(&merged, &body), merged);
    }

    #[test]
    fn fields_say_where_what_and_who() {
        let mut after = live();
        after["spec"] = json!({ "pack": "b", "runtime": { "replicas": 1 }, "facade": { "port": 8080 } });
        after["metadata"]["labels"]["example.com/team"] = json!("shop");
        after["metadata"]["resourceVersion"] = json!("8");
        let told: Vec<(String, Option<String>)> =
            fields(&live(), &after).into_iter().map(|field| (field.path, field.manager)).collect();
        assert_eq!(
            told,
            [
                ("metadata.labels[\"example.com/team\"]".to_owned(), None),
                ("spec.pack".to_owned(), None),
                ("spec.runtime.replicas".to_owned(), Some("kubectl-edit".to_owned())),
                ("spec.facade".to_owned(), None),
            ]
        );
    }

    #[test]
    fn a_pack_is_compared_inside() {
        let object = |pack: &Value| json!({ "metadata": {}, "data": { "pack.json": pack.to_string() } });
        let one = object(&json!({ "version": "1.0.0", "prompts": { "a": { "tools": ["x"] } } }));
        let two = object(&json!({ "version": "1.1.0", "prompts": { "a": { "tools": ["x", "y"] } } }));
        let mut sorted: Vec<String> = fields(&one, &two).into_iter().map(|field| field.path).collect();
        sorted.sort();
        assert_eq!(sorted, ["data[\"pack.json\"].prompts.a.tools[1]", "data[\"pack.json\"].version"]);
    }
}
