//! The servers that are measured.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testkit::https::{Identity, Target};
use testkit::kubernetes::Kubernetes;
use testkit::up::Up;

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
    Orrery(Up),
    Kubernetes(Kubernetes),
}

impl Subject {
    /// Starts it on a data directory and waits until it is ready.
    pub async fn start(&self, data: &Path) -> Result<Running> {
        let begin = Instant::now();
        let (process, target) = match self {
            Self::Orrery(binary) => {
                let server = Up::start(binary, data).await?;
                let target = server.target.clone();
                (Process::Orrery(server), target)
            }
            Self::Kubernetes(assets) => {
                let server = Kubernetes::start(assets, data)?;
                let target = Target::new(&server.url, &server.certificate, Identity::Token(server.token.clone()))?;
                (Process::Kubernetes(server), target)
            }
        };
        let mut running = Running { target, start: Duration::ZERO, process };
        while !running.target.is_ready().await {
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
            Process::Orrery(server) => vec![server.process()],
            Process::Kubernetes(server) => server.processes().to_vec(),
        }
    }
}
