//! Into a running Pod, for the API: logs, exec, port-forward.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use apiserver::pods::{
    Connection, ExecRequest, ExecSession, Exit, LogOptions, LogStream, Output, PodAccess, TerminalSize,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt as _;
use machinery::status::Status;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::driver::{Driver, ExecSpec, Sandbox};
use crate::logs;

/// Reaches into the Pods of this machine. Needs nothing but their directories and their shims, so it can be made before
/// the node is started and serves Pods that ended long ago.
pub struct Access {
    pods: PathBuf,
    driver: Arc<dyn Driver>,
}

impl Access {
    /// For the node whose data are in `data`.
    pub fn new(data: &std::path::Path, driver: Arc<dyn Driver>) -> Self {
        Self { pods: data.join("pods"), driver }
    }

    async fn sandbox(&self, pod: &Value) -> Result<Arc<dyn Sandbox>, Status> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let found = self.driver.find(uid).await;
        found.ok_or_else(|| Status::bad_request(format!("pod {name} is not running")))
    }
}

#[async_trait]
impl PodAccess for Access {
    async fn logs(&self, pod: &Value, options: LogOptions) -> Result<LogStream, Status> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let container = options.container.clone();
        let directory = self.pods.join(uid);
        let attempts = logs::attempts(&directory, &container);
        let skipped = if options.previous { 2 } else { 1 };
        let Some(attempt) = attempts.checked_sub(skipped) else {
            return Err(Status::bad_request(if options.previous {
                format!("previous terminated container \"{container}\" in pod \"{name}\" not found")
            } else {
                format!("container \"{container}\" in pod \"{name}\" is waiting to start: {}", waiting(pod, &container))
            }));
        };
        let directory = directory.join("containers").join(&container).join(attempt.to_string());
        let state = directory.join("state.json");
        let is_over = move || {
            let text = std::fs::read(&state).unwrap_or_default();
            !matches!(serde_json::from_slice(&text), Ok(crate::driver::State::Running { .. }))
        };
        Ok(logs::stream(directory, options, is_over))
    }

    async fn exec(&self, pod: &Value, request: ExecRequest) -> Result<ExecSession, Status> {
        let sandbox = self.sandbox(pod).await?;
        if request.tty { on_terminal(sandbox, &request) } else { on_pipes(sandbox, &request) }.map_err(Status::internal)
    }

    async fn attach(&self, pod: &Value, request: ExecRequest) -> Result<ExecSession, Status> {
        let sandbox = self.sandbox(pod).await?;
        let (sender, output) = mpsc::channel(16);
        let (output_writer, output_reader) = pipe::pipe().map_err(Status::internal)?;
        let (errors_writer, errors_reader) = pipe::pipe().map_err(Status::internal)?;
        let blocking = |pipe: pipe::Sender| pipe.into_blocking_fd().map_err(Status::internal);
        let outputs = [blocking(output_writer)?, blocking(errors_writer)?];
        let attached = sandbox.attach(&request.container, request.stdin, outputs).await;
        let attached = attached.map_err(|error| Status::bad_request(error.to_string()))?;
        if request.stdin && attached.input.is_none() {
            let container = &request.container;
            return Err(Status::bad_request(format!(
                "container {container} has no stdin: set stdin: true in its spec"
            )));
        }
        tokio::spawn(pass(output_reader, sender.clone(), Output::Stdout));
        tokio::spawn(pass(errors_reader, sender, Output::Stderr));
        let (stdin, typed) = mpsc::channel::<Bytes>(16);
        let (resize, mut sizes) = mpsc::channel::<TerminalSize>(4);
        if let Some(input) = attached.input {
            // A copy would keep a pipe open; only a terminal has a size.
            if request.tty {
                let terminal = input.try_clone().map_err(Status::internal)?;
                tokio::spawn(async move {
                    while let Some(size) = sizes.recv().await {
                        let _ = crate::shim::sys::resize_terminal(terminal.as_fd(), size.height, size.width);
                    }
                });
            }
            let input_ended = attached.input_ended;
            tokio::spawn(async move {
                let _ = type_in(input, typed).await;
                let _ = input_ended.send(());
            });
        }
        let ended = AbortOnDropHandle::new(tokio::spawn(async move {
            attached.ended.await;
            Exit::Code(0)
        }));
        Ok(ExecSession { stdin, output, resize, exit: settle(ended) })
    }

    async fn port_forward(&self, pod: &Value, port: u16) -> Result<Connection, Status> {
        let sandbox = self.sandbox(pod).await?;
        let connected = sandbox.connect(Ipv4Addr::LOCALHOST, port).await;
        let connection = connected.map_err(|error| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let words = match error.kind() {
                std::io::ErrorKind::ConnectionRefused => "connection refused: nothing listens there".to_owned(),
                _ => error.to_string(),
            };
            Status::new(500, "InternalError", format!("port {port} of pod {name}: {words}"))
        })?;
        Ok(Box::pin(connection))
    }
}

/// Why a container does not run yet, as its status has it.
fn waiting(pod: &Value, container: &str) -> String {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut statuses = lists.iter().filter_map(|list| pod["status"][*list].as_array()).flatten();
    let found = statuses.find(|status| status["name"] == container);
    let reason = found.and_then(|status| status["state"]["waiting"]["reason"].as_str());
    reason.unwrap_or("ContainerCreating").to_owned()
}

fn run(sandbox: Arc<dyn Sandbox>, request: &ExecRequest, streams: [OwnedFd; 3]) -> impl Future<Output = Exit> + use<> {
    let spec =
        ExecSpec { container: request.container.clone(), command: request.command.clone(), terminal: request.tty };
    async move {
        match sandbox.execute(&spec, streams).await {
            Ok(code) => Exit::Code(code),
            Err(error) => Exit::Failed(error.to_string()),
        }
    }
}

fn on_pipes(sandbox: Arc<dyn Sandbox>, request: &ExecRequest) -> std::io::Result<ExecSession> {
    let (stdin, mut typed) = mpsc::channel::<Bytes>(16);
    let (sender, output) = mpsc::channel(16);
    let (resize, _) = mpsc::channel(1);
    let (input_writer, input_reader) = pipe::pipe()?;
    let (output_writer, output_reader) = pipe::pipe()?;
    let (errors_writer, errors_reader) = pipe::pipe()?;
    let streams =
        [input_reader.into_blocking_fd()?, output_writer.into_blocking_fd()?, errors_writer.into_blocking_fd()?];
    let mut input_writer = request.stdin.then_some(input_writer);
    tokio::spawn(async move {
        while let Some(bytes) = typed.recv().await {
            let Some(writer) = &mut input_writer else { continue };
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(pass(output_reader, sender.clone(), Output::Stdout));
    tokio::spawn(pass(errors_reader, sender, Output::Stderr));
    let ended = AbortOnDropHandle::new(tokio::spawn(run(sandbox, request, streams)));
    Ok(ExecSession { stdin, output, resize, exit: settle(ended) })
}

fn on_terminal(sandbox: Arc<dyn Sandbox>, request: &ExecRequest) -> std::io::Result<ExecSession> {
    let (stdin, mut typed) = mpsc::channel::<Bytes>(16);
    let (sender, output) = mpsc::channel(16);
    let (resize, mut sizes) = mpsc::channel::<TerminalSize>(4);
    let terminal = nix::pty::openpty(None, None)?;
    let line = terminal.slave;
    let streams = [line.try_clone()?, line.try_clone()?, line];
    let master = File::from(terminal.master);
    let mut reader = tokio::fs::File::from_std(master.try_clone()?);
    let mut writer = tokio::fs::File::from_std(master.try_clone()?);
    tokio::spawn(async move {
        while let Some(bytes) = typed.recv().await {
            if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(size) = sizes.recv().await {
            let _ = crate::shim::sys::resize_terminal(master.as_fd(), size.height, size.width);
        }
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; 8192];
        // The last process that has the terminal open going away reads as an error.
        while let Ok(length @ 1..) = reader.read(&mut buffer).await {
            if sender.send(Output::Stdout(Bytes::copy_from_slice(&buffer[..length]))).await.is_err() {
                return;
            }
        }
    });
    let ended = AbortOnDropHandle::new(tokio::spawn(run(sandbox, request, streams)));
    Ok(ExecSession { stdin, output, resize, exit: settle(ended) })
}

/// Writes a client's input to a pipe or terminal that somebody else keeps open, too.
async fn type_in(input: OwnedFd, mut typed: mpsc::Receiver<Bytes>) -> std::io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(&input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let input = crate::shim::sys::register(input)?;
    while let Some(bytes) = typed.recv().await {
        let mut left = &bytes[..];
        while !left.is_empty() {
            let write = |input: &OwnedFd| nix::unistd::write(input, left).map_err(std::io::Error::from);
            let count = input.async_io(tokio::io::Interest::WRITABLE, write).await?;
            left = &left[count..];
        }
    }
    Ok(())
}

/// Dropped, it hangs up: the shim then ends the command.
fn settle(ended: AbortOnDropHandle<Exit>) -> futures::future::BoxFuture<'static, Exit> {
    ended.map(|outcome| outcome.unwrap_or_else(|error| Exit::Failed(error.to_string()))).boxed()
}

async fn pass(mut reader: pipe::Receiver, sender: mpsc::Sender<Output>, wrap: fn(Bytes) -> Output) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = reader.read(&mut buffer).await {
        if sender.send(wrap(Bytes::copy_from_slice(&buffer[..length]))).await.is_err() {
            return;
        }
    }
}
