//! What our objects are made of, as a resource tree shows it: who owns it, how it is, and why.

use serde_json::{Map, Value, json};

use super::view::{common, copy};

/// A Pod: its phase, and what its containers say.
pub fn pod(object: &Value) -> Value {
    let mut view = part(object);
    let status = &object["status"];
    copy(&mut view, status, &["phase", "podIP", "startTime"]);
    let statuses =
        ["initContainerStatuses", "containerStatuses"].into_iter().filter_map(|field| status[field].as_array());
    let containers: Vec<Value> = statuses.flatten().map(container).collect();
    view.insert("containers".to_owned(), containers.into());
    copy(&mut view, status, &["reason", "message"]);
    Value::Object(view)
}

fn container(status: &Value) -> Value {
    let mut view = Map::new();
    copy(&mut view, status, &["name", "ready", "restartCount"]);
    let state = status["state"].as_object().and_then(|state| state.iter().next());
    if let Some((state, details)) = state {
        view.insert("state".to_owned(), state.as_str().into());
        copy(&mut view, details, &["reason", "message", "exitCode"]);
    }
    Value::Object(view)
}

/// A Deployment: how many of its Pods are as they should be.
pub fn deployment(object: &Value) -> Value {
    let mut view = part(object);
    copy(&mut view, &object["spec"], &["replicas"]);
    copy(&mut view, &object["status"], &["readyReplicas", "updatedReplicas", "observedGeneration"]);
    Value::Object(view)
}

/// A Service: where it is reached.
pub fn service(object: &Value) -> Value {
    let mut view = part(object);
    copy(&mut view, &object["spec"], &["clusterIP"]);
    let ports = object["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    view.insert("ports".to_owned(), ports.iter().map(|port| port["port"].clone()).collect());
    Value::Object(view)
}

fn part(object: &Value) -> Map<String, Value> {
    let mut view = common(object);
    let owner = object["metadata"]["ownerReferences"].as_array().and_then(|owners| owners.first());
    if let Some(owner) = owner {
        view.insert("owner".to_owned(), json!({"kind": owner["kind"], "name": owner["name"], "uid": owner["uid"]}));
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_says_why_its_container_waits() {
        let view = pod(&json!({
            "metadata": {"name": "a", "ownerReferences": [{"kind": "ReplicaSet", "name": "b", "uid": "c"}]},
            "status": {"phase": "Pending", "containerStatuses": [
                {"name": "agent", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]},
        }));
        assert_eq!(view["owner"]["name"], "b");
        let expected = json!({"name": "agent", "ready": false, "restartCount": 3, "state": "waiting", "reason": "CrashLoopBackOff"});
        assert_eq!(view["containers"][0], expected);
    }
}
