//! Probes and hooks of a running container. Every one has a timeout.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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
                    if failures >= probe.failure_threshold.unwrap_or(3) {
                        self.fail("Startup", probe, &words).await;
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
            if self.ask(probe).await.is_ok() {
                (failures, successes) = (0, successes + 1);
                if !ready && successes >= probe.success_threshold.unwrap_or(1) {
                    ready = true;
                    self.tell(Result::Ready(true)).await;
                }
            } else {
                (failures, successes) = (failures + 1, 0);
                if ready && failures >= probe.failure_threshold.unwrap_or(3) {
                    ready = false;
                    self.tell(Result::Ready(false)).await;
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
                    if failures >= probe.failure_threshold.unwrap_or(3) {
                        return self.fail("Liveness", probe, &words).await;
                    }
                }
            }
            tokio::time::sleep(seconds(probe.period_seconds, 10)).await;
        }
    }

    async fn fail(&self, kind: &str, probe: &Probe, words: &str) {
        let next = if self.restarts { "will be restarted" } else { "is ended" };
        let message = format!("{kind} probe failed: {words}; container {} {next}", self.container.name);
        let grace = probe.termination_grace_period_seconds;
        self.tell(Result::Kill { reason: "Unhealthy".into(), message, grace }).await;
    }

    /// One question, bounded in time.
    async fn ask(&self, probe: &Probe) -> std::result::Result<(), String> {
        let limit = seconds(probe.timeout_seconds, 1);
        let question = async {
            if let Some(http) = &probe.http_get {
                get(&self.sandbox, &self.container, http, self.address).await
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
    if let Some(http) = &handler.http_get {
        let address = address.and_then(|address| address.parse().ok()).unwrap_or(Ipv4Addr::LOCALHOST);
        return get(sandbox, &Container::default(), http, address).await;
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

/// An HTTP request that looks at the status line only.
async fn get(
    sandbox: &Arc<dyn Sandbox>,
    container: &Container,
    http: &HTTPGetAction,
    address: Ipv4Addr,
) -> std::result::Result<(), String> {
    if http.scheme.as_deref() == Some("HTTPS") {
        return Err("httpGet with scheme HTTPS is not offered by this node: use tcpSocket".to_owned());
    }
    let port = port(container, &http.port)?;
    let address = http.host.as_ref().and_then(|host| host.parse().ok()).unwrap_or(address);
    let connected = sandbox.connect(address, port).await;
    let mut connection = connected.map_err(|error| format!("port {port}: {error}"))?;
    let path = http.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut request =
        format!("GET {slash}{path} HTTP/1.1\r\nConnection: close\r\nUser-Agent: kube-probe/1.33\r\nAccept: */*\r\n");
    let headers = http.http_headers.clone().unwrap_or_default();
    if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
        let _ = write!(request, "Host: {address}:{port}\r\n");
    }
    for header in headers {
        let _ = write!(request, "{}: {}\r\n", header.name, header.value);
    }
    request.push_str("\r\n");
    connection.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let mut limited = connection.take(4096);
    while !answer.contains(&b'\n') {
        if limited.read_buf(&mut answer).await.map_err(|error| error.to_string())? == 0 {
            break;
        }
    }
    let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP status {code}")),
        None => Err("not an HTTP answer".to_owned()),
    }
}
