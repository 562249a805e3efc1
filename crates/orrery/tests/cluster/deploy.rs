//! Packs deployed to a real cluster by the real `promptarena`, made ready by our controllers.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Cluster, kubectl, promptarena};

struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn controller(kubeconfig: &Path, log: &Path) -> Controller {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.args(["controller", "--kubeconfig"]).arg(kubeconfig).args(["--facade-image", "example.invalid/facade:1"]);
    command.args(["--framework-image", "example.invalid/runtime:1", "--helper-image", "example.invalid/orrery:1"]);
    Controller(command.stdin(Stdio::null()).stderr(File::create(log).unwrap()).spawn().unwrap())
}

/// There is no kubelet: every Deployment is said to have the Pods that it wants, as soon as it wants them. Never ends.
async fn run_deployments(kubeconfig: &Path) {
    loop {
        let deployments: Value =
            serde_json::from_str(&kubectl(kubeconfig, &["get", "deployments", "-o", "json"])).unwrap();
        for deployment in deployments["items"].as_array().unwrap() {
            let generation = &deployment["metadata"]["generation"];
            if deployment["status"]["observedGeneration"] == *generation {
                continue;
            }
            let replicas = &deployment["spec"]["replicas"];
            let status = json!({ "status": { "observedGeneration": generation, "replicas": replicas,
                "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas } });
            let name = deployment["metadata"]["name"].as_str().unwrap();
            let patch =
                ["patch", "deployment", name, "--subresource=status", "--type=merge", "-p", &status.to_string()];
            kubectl(kubeconfig, &patch);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promptarena_deploys_to_a_real_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path()).await;
    let kubeconfig = &cluster.kubeconfig;
    let log = folder.path().join("controller.log");
    let _controller = controller(kubeconfig, &log);
    let provider = json!({ "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "Provider",
        "metadata": { "name": "mock" }, "spec": { "type": "mock" } });
    let file = folder.path().join("provider.json");
    std::fs::write(&file, provider.to_string()).unwrap();
    kubectl(kubeconfig, &["apply", "-f", file.to_str().unwrap()]);
    let desk = folder.path().join("desk");
    std::fs::create_dir(&desk).unwrap();
    promptarena::arena(&desk, &json!({ "workspace": "default", "providers": { "default": "mock" } }));
    let owned = async || {
        let kinds = "configmaps,promptpacks,toolregistries,agentpolicies,agentruntimes";
        let ours = "app.kubernetes.io/managed-by=promptarena";
        kubectl(kubeconfig, &["get", kinds, "-l", ours, "-o", "name"]).lines().count()
    };
    tokio::select! {
        () = promptarena::whole_life(&desk, Some(kubeconfig), owned) => {}
        () = run_deployments(kubeconfig) => {}
    }
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("ERROR"), "{log}");
}
