//! The shapes of our routes: what a page needs, flat, with names that KubeOpenCode's clients know.

use serde_json::{Map, Value, json};

/// Which fields of an object are in its view. The OpenAPI document says the same from the same words.
pub struct Shape {
    /// Fields of the spec, as they are.
    pub spec: &'static [&'static str],
    /// Fields of the status, as they are.
    pub status: &'static [&'static str],
    /// Schemas of what else is there.
    pub more: fn() -> Value,
    /// What of all that is always there.
    pub required: &'static [&'static str],
}

/// A Task.
pub static TASK: Shape = Shape {
    spec: &["description", "timeout", "contexts"],
    status: &["podName", "startTime", "completionTime", "session"],
    more: || {
        let spec =
            |field: &str| json!({"$ref": format!("#/components/schemas/Task/properties/spec/properties/{field}")});
        let phase = json!({"type": "string", "enum": ["Pending", "Queued", "Running", "Completed", "Failed"]});
        json!({"agentRef": spec("agentRef"), "templateRef": spec("templateRef"), "phase": phase})
    },
    required: &["phase"],
};

/// A Task.
pub fn task(object: &Value) -> Value {
    let mut view = common(object);
    TASK.copy(&mut view, object);
    for reference in ["agentRef", "templateRef"] {
        let chosen =
            [&object["spec"][reference], &object["status"][reference]].into_iter().find(|value| !value.is_null());
        if let Some(chosen) = chosen {
            view.insert(reference.to_owned(), chosen.clone());
        }
    }
    // An object that the controller has not seen yet has no phase; it waits for it.
    view.insert("phase".to_owned(), object["status"]["phase"].as_str().unwrap_or("Pending").into());
    Value::Object(view)
}

/// A `CronTask`.
pub static CRON_TASK: Shape = Shape {
    spec: &[
        "schedule",
        "timeZone",
        "concurrencyPolicy",
        "suspend",
        "startingDeadlineSeconds",
        "maxRetainedTasks",
        "taskTemplate",
    ],
    status: &["active", "activeRefs", "lastScheduleTime", "lastSuccessfulTime", "nextScheduleTime", "totalExecutions"],
    more: || json!({}),
    required: &["schedule", "suspend"],
};

/// A `CronTask`.
pub fn cron_task(object: &Value) -> Value {
    let mut view = common(object);
    CRON_TASK.copy(&mut view, object);
    view.entry("suspend").or_insert(false.into());
    Value::Object(view)
}

/// An Agent.
pub static AGENT: Shape = Shape {
    spec: SPEC_OF_AGENT,
    status: &["taskStartHistory"],
    more: || {
        let status =
            |field: &str| json!({"$ref": format!("#/components/schemas/Agent/properties/status/properties/{field}")});
        let mut server: Map<String, Value> =
            SERVER_OF_AGENT.iter().map(|field| ((*field).to_owned(), status(field))).collect();
        server.insert("port".to_owned(), json!({"type": "integer"}));
        let server = json!({"type": "object", "required": ["port"], "properties": server});
        json!({"serverStatus": server, "credentials": credentials_schema()})
    },
    required: &["serverStatus", "credentials"],
};

/// An Agent.
pub fn agent(object: &Value) -> Value {
    let mut view = common(object);
    AGENT.copy(&mut view, object);
    let mut server = Map::new();
    copy(&mut server, &object["status"], SERVER_OF_AGENT);
    server.insert("port".to_owned(), object["spec"].get("port").cloned().unwrap_or(json!(4096)));
    view.insert("serverStatus".to_owned(), Value::Object(server));
    view.insert("credentials".to_owned(), credentials(&object["spec"]));
    Value::Object(view)
}

/// An `AgentTemplate`.
pub static TEMPLATE: Shape = Shape {
    spec: SPEC_OF_TEMPLATE,
    status: &[],
    more: || json!({"credentials": credentials_schema()}),
    required: &["credentials"],
};

/// An `AgentTemplate`.
pub fn template(object: &Value) -> Value {
    let mut view = common(object);
    TEMPLATE.copy(&mut view, object);
    view.insert("credentials".to_owned(), credentials(&object["spec"]));
    Value::Object(view)
}

impl Shape {
    /// The view of an object in which everything is as it is there.
    pub fn view(&self, object: &Value) -> Value {
        let mut view = common(object);
        self.copy(&mut view, object);
        Value::Object(view)
    }

    fn copy(&self, view: &mut Map<String, Value>, object: &Value) {
        copy(view, &object["spec"], self.spec);
        copy(view, &object["status"], self.status);
    }

    /// The schema of the view of a kind.
    pub fn schema(&self, kind: &str) -> Value {
        let text = json!({"type": "string"});
        let texts = json!({"type": "object", "additionalProperties": text});
        let mut properties = json!({
            "name": text, "namespace": text, "uid": text, "resourceVersion": text, "createdAt": text,
            "generation": {"type": "integer"}, "deletionTimestamp": text, "labels": texts, "annotations": texts,
            "conditions": {"type": "array", "items": {"$ref": "#/components/schemas/Condition"}},
        });
        for (part, fields) in [("spec", self.spec), ("status", self.status)] {
            for field in fields {
                let path = format!("#/components/schemas/{kind}/properties/{part}/properties/{field}");
                properties[*field] = json!({"$ref": path});
            }
        }
        if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), (self.more)()) {
            properties.extend(more);
        }
        let always = ["name", "namespace", "uid", "resourceVersion", "createdAt", "conditions"];
        let required: Vec<&str> = always.iter().chain(self.required).copied().collect();
        json!({"type": "object", "required": required, "properties": properties})
    }
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
const SPEC_OF_TEMPLATE: &[&str] = &[
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
    "extraPorts",
    "proxy",
    "podSpec",
];

const SERVER_OF_AGENT: &[&str] = &["deploymentName", "serviceName", "url", "ready", "suspended", "idleSince"];

pub(super) fn common(object: &Value) -> Map<String, Value> {
    let metadata = &object["metadata"];
    let mut view = Map::new();
    copy(
        &mut view,
        metadata,
        &["name", "namespace", "uid", "resourceVersion", "generation", "labels", "annotations", "deletionTimestamp"],
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

fn credentials_schema() -> Value {
    let properties = json!({
        "name": {"type": "string"}, "secretRef": {"type": "object"}, "mountPath": {"type": "string"}, "env": {"type": "string"},
    });
    json!({"type": "array", "items": {"type": "object", "properties": properties}})
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
