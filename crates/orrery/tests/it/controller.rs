//! `orrery controller`: the controllers in a process of their own, with no more rights than the chart gives them.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::agents::{World, task};

struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The chart's rights, with the two names that Helm would fill in.
fn rights() -> Vec<Value> {
    let text = include_str!("../../../../charts/orrery/templates/rbac.yaml");
    let text = text.replace("{{ .Release.Name }}", "orrery").replace("{{ .Release.Namespace }}", "default");
    text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

#[test]
fn the_controllers_alone_run_tasks_with_the_rights_of_the_chart() {
    let world = World::start_with(&["--without-controllers"]);
    world.apply(&rights());
    let token = world.kubectl(&["create", "token", "orrery-controller"]);
    let admin: Value = serde_json::from_str(&world.kubectl(&["config", "view", "--raw", "-o", "json"])).unwrap();
    let kubeconfig = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": admin["clusters"],
        "users": [{ "name": "u", "user": { "token": token.trim() } }],
        "contexts": [{ "name": "c", "context": { "cluster": admin["clusters"][0]["name"], "user": "u", "namespace": "default" } }] });
    let file = world.data().join("controller.json");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let log = world.data().join("controller.log");
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command.args([
            "controller",
            "--embedded",
            "--leader-elect",
            "--namespaces",
            "default",
            "--workers",
            "2",
            "--kubeconfig",
        ]);
        command.arg(&file).arg("--log-dir").arg(world.data().join("logs")).args(["--metrics-address", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stderr(File::create(&log).unwrap()).env_remove("KUBECONFIG");
        Controller(command.spawn().unwrap())
    };
    let first = start();
    let shell = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate", "metadata": { "name": "shell" },
        "spec": { "serviceAccountName": "default", "workspaceDir": "/workspace", "maxConcurrentTasks": 1,
            "command": ["sh", "-c", "cat task.md"] } });
    world.apply(&[shell, task("one", ("templateRef", "shell"), "one"), task("two", ("templateRef", "shell"), "two")]);
    world.wait("task/one", "condition=Complete");
    world.wait("task/two", "condition=Complete");
    let log = || std::fs::read_to_string(&log).unwrap();
    assert!(!log().contains("forbidden"), "{}", log());
    // Agents too: their objects are made, though nobody runs an agent here.
    world.apply(&[json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": { "name": "a" },
        "spec": { "serviceAccountName": "default", "suspend": true, "persistence": { "workspace": {} },
            "contexts": [{ "type": "Text", "text": "x" }] } })]);
    world.wait("agent/a", "condition=Suspended");
    assert_eq!(world.kubectl(&["get", "deploy/a-server", "-o", "jsonpath={.spec.replicas}"]), "0");
    // Another namespace is not its business.
    world.kubectl(&["create", "namespace", "other"]);
    let lease = world.kubectl(&["get", "lease", "orrery-controller", "-o", "jsonpath={.spec.holderIdentity}"]);
    assert!(!lease.is_empty());
    // The next one takes over, and goes on where this one was.
    drop(first);
    let _second = start();
    world.apply(&[task("three", ("templateRef", "shell"), "three")]);
    world.wait("task/three", "condition=Complete");
    assert!(!log().contains("forbidden"), "{}", log());
    let events = world.kubectl(&["get", "events", "-o", "json"]);
    assert!(events.contains("created Pod three-pod"), "Events are recorded: {}", log());
}
