use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::{Change, FieldChange, Plan};

/// Values longer than this are cut: a state is read by people, and a pack can be large.
const LETTERS: usize = 200;
/// Fields that are kept of one change.
const FIELDS: usize = 100;
/// So many bytes of fields are kept in all; the rest is only counted. A Secret does not hold more than a mebibyte.
const LARGEST: usize = 200_000;
/// Places where people write what others must not read.
const HIDDEN: [&str; 8] =
    ["additionalconfig", "apikey", "api_key", "authorization", "extraenv", "headers", "password", "token"];

/// The plan that was made last, for people who look later: what was to be done with which field. It has no bodies, and
/// no value from a place where secrets may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastPlan {
    /// When it was made.
    pub at: Timestamp,
    /// What it was made for: `apply` or `refresh`.
    pub operation: String,
    /// The version that it was made for.
    pub version: String,
    /// In a line.
    pub summary: String,
    /// What was to be done.
    pub changes: Vec<Change>,
    /// What was worth knowing before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl LastPlan {
    /// What is kept of a plan.
    pub fn of(plan: &Plan, operation: &str, at: Timestamp) -> Self {
        Self {
            at,
            operation: operation.to_owned(),
            version: plan.version.clone(),
            summary: plan.summary(),
            changes: bounded(plan.changes.iter().map(outline).collect()),
            warnings: plan.warnings.clone(),
        }
    }
}

/// Leaves out the fields of changes for which there is no room any more; how many there are is in their detail.
fn bounded(mut changes: Vec<Change>) -> Vec<Change> {
    let mut used = 0;
    for change in &mut changes {
        used += change.fields.iter().map(|field| field.line(LETTERS).len() + 64).sum::<usize>();
        if used > LARGEST {
            change.fields.clear();
        }
    }
    changes
}

fn outline(change: &Change) -> Change {
    let fields = change.fields.iter().take(FIELDS).map(shortened).collect();
    Change { fields, body: None, needs: Vec::new(), ..change.clone() }
}

fn shortened(field: &FieldChange) -> FieldChange {
    let place = field.path.to_lowercase();
    let hidden = HIDDEN.iter().any(|word| place.contains(word));
    let short = |value: &Value| if hidden { Value::from("(not kept)") } else { cut(value) };
    FieldChange {
        path: field.path.clone(),
        before: field.before.as_ref().map(short),
        after: field.after.as_ref().map(short),
        manager: field.manager.clone(),
    }
}

fn cut(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return value.clone(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Action, Key};

    #[test]
    fn it_has_neither_bodies_nor_long_values_nor_what_may_be_secret() {
        let field = |path: &str, after: Value| FieldChange {
            path: path.into(),
            before: None,
            after: Some(after),
            manager: Some("kubectl".into()),
        };
        let change = Change {
            key: Key::new("agent_runtime", "shop"),
            action: Action::Drift,
            detail: String::new(),
            fields: vec![
                field("spec.runtime.replicas", json!(3)),
                field("spec.runtime.extraEnv[0].value", json!("hunter2")),
                field("data.pack.json", json!("é".repeat(1000))),
            ],
            body: Some(json!({"spec": {"token": "hunter2"}})),
            needs: vec![Key::new("prompt_pack", "shop")],
            uid: None,
            unsettled: false,
        };
        let plan = Plan {
            format: Plan::FORMAT,
            lineage: String::new(),
            serial: 1,
            scope: "here".into(),
            pack_id: "shop".into(),
            version: "1.0.0".into(),
            environment: None,
            changes: vec![change],
            warnings: Vec::new(),
        };
        let many = vec![plan.changes[0].clone(); 1000];
        let large = LastPlan::of(&Plan { changes: many, ..plan.clone() }, "apply", Timestamp::UNIX_EPOCH);
        assert_eq!(large.changes.len(), 1000);
        assert!(serde_json::to_string(&large).expect("JSON").len() < 2 * LARGEST);
        let kept = LastPlan::of(&plan, "apply", Timestamp::UNIX_EPOCH);
        let text = serde_json::to_string(&kept).expect("JSON");
        assert!(!text.contains("hunter2") && !text.contains("\"body\""), "{text}");
        let values: Vec<_> = kept.changes[0].fields.iter().filter_map(|field| field.after.clone()).collect();
        assert_eq!(values[..2], [json!(3), json!("(not kept)")]);
        assert_eq!(values[2].as_str().map(|text| text.chars().count()), Some(LETTERS + 1));
        assert_eq!(kept.summary, "Plan: 0 to create, 0 to update, 0 to delete, 1 drifted");
    }
}
