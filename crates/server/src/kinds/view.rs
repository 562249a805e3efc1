//! The shapes of our routes: what a page needs, flat, with names that KubeOpenCode's clients know.

use serde_json::{Map, Value, json};

/// A Task.
pub fn task(object: &Value) -> Value {
    let mut view = common(object);
    copy(&mut view, &object["spec"], &["description", "timeout", "contexts"]);
    for reference in ["agentRef", "templateRef"] {
        let chosen =
            [&object["spec"][reference], &object["status"][reference]].into_iter().find(|value| !value.is_null());
        if let Some(chosen) = chosen {
            view.insert(reference.to_owned(), chosen.clone());
        }
    }
    copy(&mut view, &object["status"], &["podName", "startTime", "completionTime", "session"]);
    // An object that the controller has not seen yet has no phase; it waits for it.
    view.insert("phase".to_owned(), object["status"]["phase"].as_str().unwrap_or("Pending").into());
    Value::Object(view)
}

/// A `CronTask`.
pub fn cron_task(object: &Value) -> Value {
    let mut view = common(object);
    copy(
        &mut view,
        &object["spec"],
        &[
            "schedule",
            "timeZone",
            "concurrencyPolicy",
            "suspend",
            "startingDeadlineSeconds",
            "maxRetainedTasks",
            "taskTemplate",
        ],
    );
    copy(
        &mut view,
        &object["status"],
        &["active", "activeRefs", "lastScheduleTime", "lastSuccessfulTime", "nextScheduleTime", "totalExecutions"],
    );
    view.entry("suspend").or_insert(false.into());
    Value::Object(view)
}

/// An Agent.
pub fn agent(object: &Value) -> Value {
    let mut view = common(object);
    copy(&mut view, &object["spec"], SPEC_OF_AGENT);
    let mut server = Map::new();
    copy(&mut server, &object["status"], &["deploymentName", "serviceName", "url", "ready", "suspended", "idleSince"]);
    server.insert("port".to_owned(), object["spec"].get("port").cloned().unwrap_or(json!(4096)));
    view.insert("serverStatus".to_owned(), Value::Object(server));
    copy(&mut view, &object["status"], &["taskStartHistory"]);
    view.insert("credentials".to_owned(), credentials(&object["spec"]));
    Value::Object(view)
}

/// An `AgentTemplate`.
pub fn template(object: &Value) -> Value {
    let mut view = common(object);
    copy(&mut view, &object["spec"], SPEC_OF_AGENT);
    view.insert("credentials".to_owned(), credentials(&object["spec"]));
    Value::Object(view)
}

/// The object itself, without the bookkeeping of field ownership and of `kubectl apply`.
pub fn whole(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(super::LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

const SPEC_OF_AGENT: &[&str] = &[
    "profile",
    "templateRef",
    "agentImage",
    "executorImage",
    "attachImage",
    "workspaceDir",
    "command",
    "contexts",
    "config",
    "serviceAccountName",
    "maxConcurrentTasks",
    "quota",
    "persistence",
    "suspend",
    "standby",
    "extraPorts",
    "proxy",
    "podSpec",
];

pub(super) fn common(object: &Value) -> Map<String, Value> {
    let metadata = &object["metadata"];
    let mut view = Map::new();
    copy(
        &mut view,
        metadata,
        &["name", "namespace", "uid", "resourceVersion", "labels", "annotations", "deletionTimestamp"],
    );
    if let Some(annotations) = view.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(super::LAST_APPLIED);
    }
    view.insert("createdAt".to_owned(), metadata["creationTimestamp"].clone());
    view.insert("conditions".to_owned(), object["status"].get("conditions").cloned().unwrap_or(json!([])));
    view
}

pub(super) fn copy(view: &mut Map<String, Value>, from: &Value, fields: &[&str]) {
    for field in fields {
        if let Some(value) = from.get(field) {
            view.insert((*field).to_owned(), value.clone());
        }
    }
}

/// Where secrets come from and go to; never what they are.
fn credentials(spec: &Value) -> Value {
    let list = spec["credentials"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .map(|credential| {
            let mut view = Map::new();
            copy(&mut view, credential, &["name", "secretRef", "mountPath", "env"]);
            Value::Object(view)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_nobody_has_looked_at_is_pending() {
        let view = task(&json!({"metadata": {"name": "a"}, "spec": {"agentRef": {"name": "b"}}}));
        assert_eq!(view["phase"], "Pending");
        assert_eq!(view["agentRef"]["name"], "b");
        assert_eq!(view["conditions"], json!([]));
    }

    #[test]
    fn a_view_of_credentials_has_no_values() {
        let view =
            agent(&json!({"metadata": {}, "spec": {"credentials": [{"name": "a", "value": "secret", "env": "B"}]}}));
        assert_eq!(view["credentials"], json!([{"name": "a", "env": "B"}]));
    }
}
