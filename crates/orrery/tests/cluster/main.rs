//! The whole binary against a real kube-apiserver.
//!
//! `make test-kubernetes` builds what this needs and names it in `KUBEBUILDER_ASSETS`, `HELM` and `PROMPTARENA`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod chart;
mod deploy;
#[path = "../it/plane.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod plane;
#[path = "../it/promptarena.rs"]
mod promptarena;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use testkit::https::{Identity, Target};
use testkit::kubernetes::Kubernetes;

fn needed(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable);
    value.unwrap_or_else(|| panic!("{variable} is not set: run this by `make test-kubernetes`")).into()
}

fn kubectl(kubeconfig: &Path, words: &[&str]) -> String {
    let kubectl = needed("KUBEBUILDER_ASSETS").join("kubectl");
    let output = Command::new(kubectl).args(words).env("KUBECONFIG", kubeconfig).output().unwrap();
    assert!(output.status.success(), "kubectl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A kube-apiserver that knows our kinds.
struct Cluster {
    kubeconfig: PathBuf,
    _server: Kubernetes,
}

impl Cluster {
    async fn start(folder: &Path) -> Self {
        let server = Kubernetes::start(&needed("KUBEBUILDER_ASSETS"), &folder.join("data")).unwrap();
        let target = Target::new(&server.url, &server.certificate, Identity::Token(server.token.clone())).unwrap();
        while !target.is_ready().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let authority = folder.join("data/tls.crt");
        let content = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server.url, "certificate-authority": authority } }],
            "users": [{ "name": "c", "user": { "token": server.token } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }] });
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, content.to_string()).unwrap();
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/orrery/crds");
        kubectl(&kubeconfig, &["apply", "--server-side", "-f", definitions.to_str().unwrap()]);
        kubectl(&kubeconfig, &["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]);
        Self { kubeconfig, _server: server }
    }
}
