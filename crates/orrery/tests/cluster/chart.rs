//! The Helm chart: rendered by Helm, judged by a real kube-apiserver, run by the embedded plane.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::plane::Plane;
use crate::{Cluster, kubectl, needed};

const IMAGE: &str = "image=example.invalid/orrery:1";

fn helm(words: &[&str]) -> Output {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/orrery");
    let mut command = Command::new(needed("HELM"));
    command.args(["template", "orrery"]).arg(chart).args(["--kube-version", "1.36.0", "--namespace", "default"]);
    command.args(words).output().unwrap()
}

fn rendered(folder: &Path, words: &[&str]) -> String {
    let output = helm(words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = folder.join("chart.yaml");
    std::fs::write(&file, output.stdout).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn without_an_image_it_says_what_to_set() {
    let output = helm(&[]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("set image: the image with the program orrery"));
}

#[tokio::test]
async fn a_real_cluster_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path()).await;
    let run = |words: &[&str]| kubectl(&cluster.kubeconfig, words);
    let chart = rendered(folder.path(), &["--set", IMAGE, "--set", "controller.namespaces={a,b}"]);
    let apply = ["apply", "--server-side", "--validate=strict", "-f", &chart];
    run(&[&apply[..], &["--dry-run=server"]].concat());
    run(&apply);
    let command = "jsonpath={.spec.template.spec.containers[0].command}";
    let command = run(&["get", "deploy", "orrery-controller", "-o", command]);
    assert!(command.contains("--namespaces=a,b") && command.contains("--log-dir=/logs"), "{command}");
}

#[test]
fn its_controller_runs_in_a_pod_with_the_rights_that_it_gives() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let plane = Plane::start_in(&data, &["--without-controllers", "--image-map", "example.invalid/*=host"]);
    let kubeconfig = plane.kubeconfig();
    let run = |words: &[&str]| kubectl(&kubeconfig, words);
    let chart = rendered(folder.path(), &["--set", IMAGE]);
    run(&["apply", "-f", &chart]);
    run(&["wait", "deploy/orrery-controller", "--for=condition=Available", "--timeout=120s"]);
    let objects = [
        json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate", "metadata": { "name": "t" },
            "spec": { "serviceAccountName": "default", "workspaceDir": "/workspace" } }),
        json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": { "name": "one" },
            "spec": { "templateRef": { "name": "t" }, "description": "x" } }),
    ];
    let file = folder.path().join("objects.json");
    std::fs::write(&file, objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")).unwrap();
    run(&["apply", "-f", file.to_str().unwrap()]);
    run(&["wait", "task/one", "--for=jsonpath={.status.phase}=Running", "--timeout=120s"]);
    run(&["wait", "pod/one-pod", "--for=create", "--timeout=60s"]);
    // On a cluster the agent's program comes from its image, and ours from the chart's.
    let pod: Value = serde_json::from_str(&run(&["get", "pod", "one-pod", "-o", "json"])).unwrap();
    let init = pod["spec"]["initContainers"].as_array().unwrap();
    let of = |name: &str| init.iter().find(|container| container["name"] == name).unwrap();
    assert_eq!(of("opencode-init")["image"], "quay.io/kubeopencode/kubeopencode-agent-opencode:latest");
    let helper = of("helper-init");
    let expected = json!(["/kubeopencode", "self-init"]);
    assert_eq!((&helper["image"], &helper["command"]), (&json!("example.invalid/orrery:1"), &expected));
    let said = run(&["logs", "deploy/orrery-controller"]);
    assert!(!said.contains("forbidden"), "{said}");
    drop(plane);
    let _ = Command::new(env!("CARGO_BIN_EXE_orrery")).arg("down").arg("--data-dir").arg(&data).output();
}
