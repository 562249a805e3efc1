//! A real kube-controller-manager beside a real kube-apiserver, for whoever wants to compare.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::kubernetes::Kubernetes;

/// A running kube-controller-manager. Dropping it ends it.
#[derive(Debug)]
pub struct ControllerManager {
    process: Child,
}

impl ControllerManager {
    /// Starts the named controllers from the directory of binaries `assets`; `directory` is the one `kubernetes` was
    /// started with.
    pub fn start(assets: &Path, directory: &Path, kubernetes: &Kubernetes, controllers: &[&str]) -> io::Result<Self> {
        let kubeconfig = directory.join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_of(kubernetes))?;
        let process = Command::new(assets.join("kube-controller-manager"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--controllers={}", controllers.join(",")))
            .arg(format!("--root-ca-file={}", directory.join("tls.crt").display()))
            .arg(format!("--service-account-private-key-file={}", directory.join("tls.key").display()))
            .args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(directory.join("kube-controller-manager.log"))?)
            .spawn()?;
        Ok(Self { process })
    }
}

impl Drop for ControllerManager {
    fn drop(&mut self) {
        // It may have ended already; there is nobody to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How an administrator reaches the cluster.
pub fn kubeconfig_of(kubernetes: &Kubernetes) -> String {
    let authority = BASE64.encode(&kubernetes.certificate);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters: [{{name: test, cluster: {{server: \"{}\", certificate-authority-data: {authority}}}}}]\n\
         users: [{{name: test, user: {{token: {}}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n",
        kubernetes.url, kubernetes.token
    )
}
