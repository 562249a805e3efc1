//! A real kube-apiserver with etcd, ready to be asked.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::Request;

use crate::client::Client;

/// Admission that rewrites objects by rules of a cluster that the embedded plane does not have.
const WITHOUT: &str = "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds,Priority,\
    TaintNodesByCondition,StorageObjectInUseProtection,DefaultStorageClass,RuntimeClass,DefaultIngressClass";

/// Both processes; they end with this value.
pub struct Kubernetes {
    client: Client,
    _processes: testkit::kubernetes::Kubernetes,
    folder: tempfile::TempDir,
}

impl Kubernetes {
    pub async fn start() -> Self {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS")
            .map(PathBuf::from)
            .expect("KUBEBUILDER_ASSETS must name the directory of etcd and kube-apiserver: use make test-kubernetes");
        let folder = tempfile::tempdir().unwrap();
        let processes = testkit::kubernetes::Kubernetes::start_with(&assets, folder.path(), &[WITHOUT]).unwrap();
        let authority = reqwest::Certificate::from_pem(processes.certificate.as_bytes()).unwrap();
        let http =
            reqwest::Client::builder().timeout(Duration::from_secs(30)).tls_certs_only([authority]).build().unwrap();
        let client = Client::Remote { http, base: processes.url.clone(), token: processes.token.clone() };
        let kubernetes = Self { client, _processes: processes, folder };
        kubernetes.wait_until_ready().await;
        kubernetes
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Ready, and the default namespace is there: it comes a moment later.
    async fn wait_until_ready(&self) {
        let deadline = Instant::now() + Duration::from_mins(2);
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            loop {
                let request = Request::get(path).body(Vec::new()).unwrap();
                if self.client.try_send(request).await.is_ok_and(|answer| answer.status == 200) {
                    break;
                }
                assert!(Instant::now() < deadline, "kube-apiserver does not become ready:\n{}", self.log());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("kube-apiserver.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}
