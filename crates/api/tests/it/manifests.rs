//! Manifests survive being read and written.

use orrery_api::kubeopencode::{Agent, Task};
use serde_json::json;

#[test]
fn an_agent_reads_and_writes_the_same() {
    let manifest = json!({
        "apiVersion": "kubeopencode.io/v1alpha1",
        "kind": "Agent",
        "metadata": { "name": "a" },
        "spec": {
            "serviceAccountName": "sa",
            "workspaceDir": "/workspace",
            "port": 4096,
            "config": { "model": "x/y" },
            "credentials": [{ "name": "k", "secretRef": { "name": "s", "key": "k" }, "mountPath": "/k", "fileMode": 256 }],
            "podSpec": {
                "resources": { "requests": { "memory": "512Mi", "cpu": "500m" } },
                "scheduling": { "tolerations": [{ "key": "dedicated", "operator": "Equal", "value": "ai", "effect": "NoSchedule" }] },
            },
        },
    });
    let agent: Agent = serde_json::from_value(manifest.clone()).unwrap();
    assert_eq!(serde_json::to_value(agent).unwrap(), manifest);
}

#[test]
fn a_number_is_a_quantity_too() {
    let agent: Agent = serde_json::from_value(json!({
        "apiVersion": "kubeopencode.io/v1alpha1",
        "kind": "Agent",
        "metadata": { "name": "a" },
        "spec": { "podSpec": { "resources": { "limits": { "cpu": 2 } } } },
    }))
    .unwrap();
    let resources = agent.spec.blueprint.pod_spec.unwrap().resources.unwrap();
    assert_eq!(resources.limits.unwrap()["cpu"].0, "2");
}

#[test]
fn a_reference_is_an_object() {
    let task = json!({
        "apiVersion": "kubeopencode.io/v1alpha1",
        "kind": "Task",
        "metadata": { "name": "complex-task" },
        "spec": { "agentRef": "my-agent" },
    });
    assert!(serde_json::from_value::<Task>(task).is_err());
}
