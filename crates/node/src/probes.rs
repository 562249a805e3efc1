//! Probes and hooks of a running container. Every one has a timeout.

mod http;

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction, LifecycleHandler, Pod, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::driver::{ExecSpec, Sandbox};
use crate::worker::Input;

/// What came out for a container.
pub struct Probed {
    /// The container.
    pub container: String,
    /// Which start of it.
    pub attempt: u32,
    /// What.
    pub result: Result,
}

/// What a probe or hook says.
pub enum Result {
    /// The container is up: its hook ran, its startup probe passed.
    Started,
    /// Readiness.
    Ready(bool),
    /// A probe failed; alone that means nothing yet.
    Failed {
        /// `Startup`, `Liveness` or `Readiness`.
        kind: &'static str,
        /// In words.
        words: String,
    },
    /// It must be ended.
    Kill {
        /// Reason of the event.
        reason: String,
        /// In words.
        message: String,
        /// Seconds of patience, when the probe has its own.
        grace: Option<i64>,
    },
}

/// What a probe needs to know about its container.
#[derive(Clone)]
struct Target {
    container: Container,
    attempt: u32,
    address: Ipv4Addr,
    sandbox: Arc<dyn Sandbox>,
    worker: mpsc::Sender<Input>,
    restarts: bool,
}

/// Watches over a container that has just been started.
pub fn run(
    pod: &Pod,
    container: &Container,
    attempt: u32,
    address: Option<&str>,
    sandbox: &Arc<dyn Sandbox>,
    worker: &mpsc::Sender<Input>,
) -> Vec<AbortOnDropHandle<()>> {
    let target = Target {
        container: container.clone(),
        attempt,
        address: address.and_then(|address| address.parse().ok()).unwrap_or(Ipv4Addr::LOCALHOST),
        sandbox: sandbox.clone(),
        worker: worker.clone(),
        restarts: pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) != Some("Never"),
    };
    vec![AbortOnDropHandle::new(tokio::spawn(target.watch_over()))]
}

impl Target {
    async fn tell(&self, result: Result) {
        let probed = Probed { container: self.container.name.clone(), attempt: self.attempt, result };
        let _ = self.worker.send(Input::Probed(probed)).await;
    }

    async fn watch_over(self) {
        let hook_after = self.container.lifecycle.as_ref().and_then(|hooks| hooks.post_start.clone());
        if let Some(handler) = hook_after {
            let address = self.address.to_string();
            if let Err(words) = hook(&self.sandbox, &self.container.name, &handler, Some(&address)).await {
                let message = format!("PostStartHook failed: {words}");
                return self.tell(Result::Kill { reason: "FailedPostStartHook".into(), message, grace: None }).await;
            }
        }
        if let Some(probe) = self.container.startup_probe.clone()
            && !self.await_startup(&probe).await
        {
            return;
        }
        self.tell(Result::Started).await;
        let readiness = async {
            if let Some(probe) = &self.container.readiness_probe {
                self.follow_readiness(probe).await;
            }
        };
        let liveness = async {
            if let Some(probe) = &self.container.liveness_probe {
                self.follow_liveness(probe).await;
            }
        };
        tokio::join!(readiness, liveness);
    }

    async fn await_startup(&self, probe: &Probe) -> bool {
        tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
        let mut failures = 0;
        loop {
            match self.ask(probe).await {
                Ok(()) => return true,
                Err(words) => {
                    failures += 1;
                    self.tell(Result::Failed { kind: "Startup", words }).await;
                    if failures >= probe.failure_threshold.unwrap_or(3) {
                        self.fail("startup", probe).await;
                        return false;
                    }
                }
            }
            tokio::time::sleep(seconds(probe.period_seconds, 10)).await;
        }
    }

    async fn follow_readiness(&self, probe: &Probe) {
        tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
        let (mut failures, mut successes, mut ready) = (0, 0, false);
        loop {
            if let Err(words) = self.ask(probe).await {
                self.tell(Result::Failed { kind: "Readiness", words }).await;
                (failures, successes) = (failures + 1, 0);
                if ready && failures >= probe.failure_threshold.unwrap_or(3) {
                    ready = false;
                    self.tell(Result::Ready(false)).await;
                }
            } else {
                (failures, successes) = (0, successes + 1);
                if !ready && successes >= probe.success_threshold.unwrap_or(1) {
                    ready = true;
                    self.tell(Result::Ready(true)).await;
                }
            }
            tokio::time::sleep(seconds(probe.period_seconds, 10)).await;
        }
    }

    async fn follow_liveness(&self, probe: &Probe) {
        tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
        let mut failures = 0;
        loop {
            match self.ask(probe).await {
                Ok(()) => failures = 0,
                Err(words) => {
                    failures += 1;
                    self.tell(Result::Failed { kind: "Liveness", words }).await;
                    if failures >= probe.failure_threshold.unwrap_or(3) {
                        return self.fail("liveness", probe).await;
                    }
                }
            }
            tokio::time::sleep(seconds(probe.period_seconds, 10)).await;
        }
    }

    async fn fail(&self, kind: &str, probe: &Probe) {
        let next = if self.restarts { "will be restarted" } else { "will be ended" };
        let message = format!("Container {} failed {kind} probe, {next}", self.container.name);
        let grace = probe.termination_grace_period_seconds;
        self.tell(Result::Kill { reason: "Killing".into(), message, grace }).await;
    }

    /// One question, bounded in time.
    async fn ask(&self, probe: &Probe) -> std::result::Result<(), String> {
        let limit = seconds(probe.timeout_seconds, 1);
        let question = async {
            if let Some(action) = &probe.http_get {
                http::get(&self.sandbox, &self.container, action, self.address).await
            } else if let Some(tcp) = &probe.tcp_socket {
                let port = port(&self.container, &tcp.port)?;
                self.sandbox
                    .connect(self.address, port)
                    .await
                    .map(drop)
                    .map_err(|error| format!("port {port}: {error}"))
            } else if let Some(exec) = &probe.exec {
                execute(&self.sandbox, &self.container.name, exec).await
            } else {
                Err("this node knows httpGet, tcpSocket and exec probes".to_owned())
            }
        };
        match tokio::time::timeout(limit, question).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer in {} s", limit.as_secs())),
        }
    }
}

/// Runs a lifecycle hook.
pub async fn hook(
    sandbox: &Arc<dyn Sandbox>,
    container: &str,
    handler: &LifecycleHandler,
    address: Option<&str>,
) -> std::result::Result<(), String> {
    if let Some(exec) = &handler.exec {
        return execute(sandbox, container, exec).await;
    }
    if let Some(sleep) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    if let Some(action) = &handler.http_get {
        let address = address.and_then(|address| address.parse().ok()).unwrap_or(Ipv4Addr::LOCALHOST);
        return http::get(sandbox, &Container::default(), action, address).await;
    }
    Ok(())
}

fn seconds(declared: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(declared.and_then(|value| u64::try_from(value).ok()).unwrap_or(default))
}

fn port(container: &Container, port: &IntOrString) -> std::result::Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => name.parse().ok().or_else(|| {
            let declared = container.ports.iter().flatten();
            declared.into_iter().find(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port)
        }),
    };
    number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| format!("port {port:?} is not declared"))
}

async fn execute(sandbox: &Arc<dyn Sandbox>, container: &str, exec: &ExecAction) -> std::result::Result<(), String> {
    let (writer, mut reader) = tokio::net::unix::pipe::pipe().map_err(|error| error.to_string())?;
    let writer: OwnedFd = writer.into_blocking_fd().map_err(|error| error.to_string())?;
    let errors = writer.try_clone().map_err(|error| error.to_string())?;
    let null = std::fs::File::open("/dev/null").map_err(|error| error.to_string())?;
    let spec = ExecSpec {
        container: container.to_owned(),
        command: exec.command.clone().unwrap_or_default(),
        terminal: false,
    };
    let said = async {
        let mut text = vec![0; 1024];
        let length = reader.read(&mut text).await.unwrap_or(0);
        text.truncate(length);
        // What it says beyond that is not kept, but must not block it.
        let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let (code, said) = tokio::join!(sandbox.execute(&spec, [null.into(), writer, errors]), said);
    match code {
        Ok(0) => Ok(()),
        Ok(code) => Err(format!("exit code {code}: {said}")),
        Err(error) => Err(error.to_string()),
    }
}
