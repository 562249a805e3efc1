//! What `orrery deploy` has deployed: its states, which are kept in Secrets beside what they describe.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use deploy::State;
use deploy::state::Lock;
use serde_json::{Value, json};

use super::view::{Shape, common};

/// A deployment of a pack.
pub static SHAPE: Shape = Shape {
    spec: &[],
    status: &[],
    more: || {
        let text = json!({"type": "string"});
        let object = |required: &[&str], properties: Value| json!({"type": "object", "required": required, "properties": properties});
        let field = object(&["path"], json!({"path": text, "before": {}, "after": {}, "manager": text}));
        let action = json!({"type": "string", "enum": ["CREATE", "UPDATE", "DELETE", "NO_CHANGE", "DRIFT"]});
        let change = object(
            &["type", "name", "action"],
            json!({"type": text, "name": text, "action": action, "detail": text, "fields": {"type": "array", "items": field}}),
        );
        let plan = object(
            &["at", "operation", "version", "summary", "changes"],
            json!({
                "at": text, "operation": text, "version": text, "summary": text,
                "changes": {"type": "array", "items": change}, "warnings": {"type": "array", "items": text},
            }),
        );
        let resource = object(
            &["type", "name", "status"],
            json!({"type": text, "name": text, "uid": text, "status": text, "generation": {"type": "integer"}}),
        );
        json!({
            "pack": text, "version": text, "environment": text, "serial": {"type": "integer"}, "problem": text,
            "resources": {"type": "array", "items": resource}, "lastPlan": plan,
            "lock": object(&["owner", "operation", "since"], json!({"owner": text, "operation": text, "since": text})),
        })
    },
    required: &["pack", "version", "serial", "resources"],
};

/// A deployment of a pack. A state that cannot be read says so.
pub fn view(object: &Value) -> Value {
    let mut view = common(object);
    let (state, problem) = match State::parse(&text(object, "state")) {
        Ok(state) => (state, None),
        Err(failure) => (State::default(), Some(failure.to_string())),
    };
    let resource = |resource: &deploy::Resource| {
        let mut shown = json!({"type": resource.key.type_, "name": resource.key.name, "status": resource.status});
        if let Some(uid) = &resource.uid {
            shown["uid"] = json!(uid);
        }
        if let Some(generation) = resource.metadata.get("generation") {
            shown["generation"] = generation.clone();
        }
        shown
    };
    let resources: Vec<Value> = state.resources.iter().map(resource).collect();
    let more = json!({"pack": state.pack_id, "version": state.version, "serial": state.serial, "resources": resources});
    view.extend(more.as_object().cloned().unwrap_or_default());
    let lock = serde_json::from_str::<Lock>(&text(object, "lock")).ok();
    // Not its id: who has that can break it.
    let lock = lock.map(|lock| json!({"owner": lock.owner, "operation": lock.operation, "since": lock.since}));
    let optional = [
        ("environment", state.environment.map(Value::from)),
        ("problem", problem.map(Value::from)),
        ("lastPlan", state.last_plan.map(|plan| json!(plan))),
        ("lock", lock),
    ];
    view.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Value::Object(view)
}

fn text(secret: &Value, field: &str) -> String {
    let bytes = secret["data"][field].as_str().and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_shown_and_a_broken_one_says_so() {
        let secret = |state: &str| {
            let lock =
                r#"{"id":"key","owner":"ada on a, process 1","operation":"apply","since":"2026-01-01T00:00:00Z"}"#;
            json!({"metadata": {"name": "a"}, "data": {"state": BASE64_STANDARD.encode(state), "lock": BASE64_STANDARD.encode(lock)}})
        };
        let state = r#"{"pack_id":"shop","version":"1.0.0","serial":3,"resources":[{"type":"prompt_pack","name":"shop","uid":"u","status":"created","metadata":{"generation":2}}]}"#;
        let shown = view(&secret(state));
        assert_eq!(shown["pack"], "shop");
        assert_eq!(shown["resources"][0]["generation"], 2);
        assert_eq!(shown["lock"]["owner"], "ada on a, process 1");
        assert!(!shown.to_string().contains("key"), "{shown}");
        assert!(view(&secret("{"))["problem"].as_str().is_some_and(|why| why.contains("cannot be read")));
    }
}
