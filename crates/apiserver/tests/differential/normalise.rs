//! Makes equal what must differ, and keeps what can be told from it.
//!
//! Uids become numbers in the order of their first appearance, and so do the versions of each object: two
//! answers of one server with the same version stay recognisable, so a write that should change
//! nothing is seen to change nothing.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::client::Answer;

static UID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap());
/// Versions, and the random ends of names, inside messages.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(in record \(|in object meta: |, current: )\d+").unwrap());
static GENERATED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(Bad-|gen-)[a-z0-9]{5}\b").unwrap());
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d+[sm]$").unwrap());
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)").unwrap());

/// What one server has shown so far in one scenario.
#[derive(Default)]
pub struct Normaliser {
    uids: HashMap<String, usize>,
    /// By uid and version.
    versions: HashMap<String, HashMap<String, usize>>,
}

impl Normaliser {
    pub fn answer(&mut self, answer: Answer) -> Answer {
        let mut body = answer.body;
        if let Value::Object(members) = &mut body {
            hide_collection(members);
        }
        self.value(&mut body);
        let warnings = answer.warnings.iter().map(|warning| self.text(warning)).collect();
        let content_type = answer.content_type.replace(' ', "");
        Answer { content_type, warnings, body, ..answer }
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                // Go writes some absent values as null; to a client they are the same.
                members.retain(|_, member| !member.is_null());
                if members.get("details").is_some_and(|details| *details == Value::Object(Map::new())) {
                    members.remove("details");
                }
                // Where a bookmark stands depends on everything else that is written.
                if members.get("type").is_some_and(|kind| kind == "BOOKMARK") {
                    members["object"]["metadata"]["resourceVersion"] = "<bookmark>".into();
                }
                self.metadata(members);
                members.values_mut().for_each(|member| self.value(member));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    fn metadata(&mut self, members: &mut Map<String, Value>) {
        // The causes of a refusal are a set, and Kubernetes finds some of them twice.
        if let Some(Value::Array(causes)) = members.get_mut("causes") {
            causes.sort_by_key(|cause| ["field", "reason", "message"].map(|part| cause[part].to_string()));
            causes.dedup();
        }
        let versions = self.versions.entry(members.get("uid").map(Value::to_string).unwrap_or_default()).or_default();
        if let Some(Value::String(version)) = members.get_mut("resourceVersion")
            && version.chars().all(|digit| digit.is_ascii_digit())
            && !version.is_empty()
        {
            let next = versions.len() + 1;
            *version = format!("<version {}>", versions.entry(version.clone()).or_insert(next));
        }
        // Their order depends on the second in which a write fell.
        if let Some(Value::Array(entries)) = members.get_mut("managedFields") {
            entries.sort_by_key(|entry| {
                ["operation", "manager", "apiVersion", "subresource"].map(|field| entry[field].to_string())
            });
        }
        let Some(Value::String(prefix)) = members.get("generateName").cloned() else {
            return;
        };
        if let Some(Value::String(name)) = members.get_mut("name")
            && name.len() == prefix.len() + 5
            && name.starts_with(&prefix)
        {
            *name = format!("{prefix}<suffix>");
        }
    }

    fn text(&mut self, text: &str) -> String {
        let text = UID.replace_all(text, |found: &Captures<'_>| {
            let next = self.uids.len() + 1;
            format!("<uid {}>", self.uids.entry(found[0].to_owned()).or_insert(next))
        });
        let text = NUMBER.replace_all(&text, "$1<version>");
        let text = GENERATED.replace_all(&text, "$1<suffix>");
        let text = AGE.replace(&text, "<age>");
        TIME.replace_all(&text, "<time>").into_owned()
    }
}

/// The version of a collection depends on everything else that happens, and a continue token is opaque.
fn hide_collection(body: &mut Map<String, Value>) {
    let is_list =
        body.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List") || kind == "Table");
    if let (true, Some(Value::Object(metadata))) = (is_list, body.get_mut("metadata")) {
        // Some lists say that nothing follows, others say nothing.
        metadata.retain(|field, value| field != "continue" || *value != Value::String(String::new()));
        for field in ["resourceVersion", "continue"] {
            if let Some(value) = metadata.get_mut(field) {
                *value = Value::String(format!("<{field}>"));
            }
        }
    }
}
