//! The servers that are measured.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use testkit::kubernetes::Kubernetes;

use crate::client::{Identity, Target};

/// Nothing takes longer than this to start.
const PATIENCE: Duration = Duration::from_mins(1);

/// Something that serves the Kubernetes API.
#[derive(Clone, Debug)]
pub enum Subject {
    /// This binary.
    Orrery(PathBuf),
    /// The binaries in this directory.
    Kubernetes(PathBuf),
}

/// A server that is running.
pub struct Running {
    /// How to reach it.
    pub target: Target,
    /// From starting it until it said that it is ready.
    pub start: Duration,
    process: Process,
}

enum Process {
    Orrery(Child),
    Kubernetes(Kubernetes),
}

impl Subject {
    /// Starts it on a data directory and waits until it is ready.
    pub async fn start(&self, data: &Path) -> Result<Running> {
        std::fs::create_dir_all(data)?;
        let begin = Instant::now();
        let (process, target) = match self {
            Self::Orrery(binary) => start_orrery(binary, data).await?,
            Self::Kubernetes(assets) => {
                let server = Kubernetes::start(assets, data)?;
                let target = Target::new(&server.url, &server.certificate, Identity::Token(server.token.clone()))?;
                (Process::Kubernetes(server), target)
            }
        };
        let mut running = Running { target, start: Duration::ZERO, process };
        while !ready(&running.target).await {
            ensure!(begin.elapsed() < PATIENCE, "{self:?} does not become ready; see {}", data.display());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        running.start = begin.elapsed();
        Ok(running)
    }
}

impl Running {
    /// Its process ids.
    pub fn processes(&self) -> Vec<u32> {
        match &self.process {
            Process::Orrery(child) => vec![child.id()],
            Process::Kubernetes(server) => server.processes().to_vec(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Process::Orrery(child) = &mut self.process {
            // It may have ended already; there is nobody to tell.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn ready(target: &Target) -> bool {
    match target.connect().await {
        Ok(mut connection) => connection.get("/readyz").await.is_ok(),
        Err(_) => false,
    }
}

async fn start_orrery(binary: &Path, data: &Path) -> Result<(Process, Target)> {
    let port = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let begin = Instant::now();
    let kubeconfig = data.join("kubeconfig");
    if kubeconfig.exists() {
        std::fs::remove_file(&kubeconfig)?;
    }
    let mut child = Command::new(binary)
        .arg("up")
        .arg("--data-dir")
        .arg(data)
        .args(["--api-port", &port()?.port().to_string(), "--server-port", &port()?.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(data.join("orrery.log"))?)
        .spawn()
        .with_context(|| format!("failed to start {}", binary.display()))?;
    loop {
        if let Ok(text) = std::fs::read_to_string(&kubeconfig)
            && let Ok(target) = target_of(&text)
        {
            return Ok((Process::Orrery(child), target));
        }
        ensure!(child.try_wait()?.is_none(), "orrery ended; see {}", data.join("orrery.log").display());
        ensure!(begin.elapsed() < PATIENCE, "orrery writes no {}", kubeconfig.display());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Reads what a kubeconfig with one cluster and one user says.
fn target_of(kubeconfig: &str) -> Result<Target> {
    let config: Value = serde_saphyr::from_str(kubeconfig)?;
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let decoded = |value: &Value| -> Result<String> {
        let text = value.as_str().context("a field of the kubeconfig is missing")?;
        Ok(String::from_utf8(STANDARD.decode(text)?)?)
    };
    let identity = match user["token"].as_str() {
        Some(token) => Identity::Token(token.to_owned()),
        None => Identity::Certificate(decoded(&user["client-certificate-data"])?, decoded(&user["client-key-data"])?),
    };
    let server = cluster["server"].as_str().context("the kubeconfig has no server")?;
    Target::new(server, &decoded(&cluster["certificate-authority-data"])?, identity)
}
