//! `orrery up` as a process of its own, for tests that kill it and benchmarks that measure it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::https::{Identity, Target};

/// Nothing takes longer than this to start.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running `orrery up`. Dropping it kills it.
#[derive(Debug)]
pub struct Up {
    /// How to reach its API.
    pub target: Target,
    child: Child,
}

impl Up {
    /// Starts the binary on a data directory and waits until it has written its kubeconfig. What it says goes to
    /// `orrery.log` beside its data.
    pub async fn start(binary: &Path, data: &Path) -> Result<Self> {
        Self::start_with(binary, data, &[]).await
    }

    /// The same with more flags.
    pub async fn start_with(binary: &Path, data: &Path, flags: &[&str]) -> Result<Self> {
        fs::create_dir_all(data)?;
        let kubeconfig = data.join("kubeconfig");
        // One of an earlier start would name another port.
        if kubeconfig.exists() {
            fs::remove_file(&kubeconfig)?;
        }
        let log = data.join("orrery.log");
        let mut child = Command::new(binary)
            .arg("up")
            .arg("--data-dir")
            .arg(data)
            .args(["--api-port", &free_port()?, "--server-port", &free_port()?])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("failed to start {}", binary.display()))?;
        let target =
            target_of(&kubeconfig, &mut child).await.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        Ok(Self { target, child })
    }

    /// Its process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, waits, and says how it ended.
    pub fn stop(mut self) -> Result<ExitStatus> {
        let process = Pid::from_raw(self.child.id().try_into()?);
        kill(process, Signal::SIGTERM)?;
        Ok(self.child.wait()?)
    }

    /// `kill -9`.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a starting `orrery up` has written its kubeconfig.
pub async fn target_of(kubeconfig: &Path, process: &mut Child) -> Result<Target> {
    let begin = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(kubeconfig)
            && let Ok(target) = target(&text)
        {
            return Ok(target);
        }
        ensure!(process.try_wait()?.is_none(), "orrery ended");
        ensure!(begin.elapsed() < PATIENCE, "orrery writes no {}", kubeconfig.display());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A port that nobody has at the moment.
fn free_port() -> Result<String> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port().to_string())
}

/// Reads what a kubeconfig with one cluster and one user says.
fn target(kubeconfig: &str) -> Result<Target> {
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
