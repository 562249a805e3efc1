//! Into a running Pod: logs, commands, attachments and ports. The node does it; this says how to ask.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use machinery::status::Status;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Bytes of a log, in order.
pub type LogStream = BoxStream<'static, std::io::Result<Bytes>>;

/// A connection to a port inside a Pod.
pub type Connection = Pin<Box<dyn Duplex>>;

/// Reads and writes.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// Who runs Pods, asked by the API. `pod` is the Pod object; containers named in options exist in it.
#[async_trait]
pub trait PodAccess: Send + Sync {
    /// What a container wrote.
    async fn logs(&self, pod: &Value, options: LogOptions) -> Result<LogStream, Status>;

    /// Runs a command in a container.
    async fn exec(&self, pod: &Value, request: ExecRequest) -> Result<ExecSession, Status>;

    /// Connects to the process that a container already runs.
    async fn attach(&self, _pod: &Value, _request: ExecRequest) -> Result<ExecSession, Status> {
        Err(Status::new(501, "NotImplemented", "attaching to a running container is not supported; use exec or logs"))
    }

    /// Connects to a port of the Pod.
    async fn port_forward(&self, pod: &Value, port: u16) -> Result<Connection, Status>;
}

/// Which part of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
    /// The container.
    pub container: String,
    /// Go on as it is written.
    pub follow: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only what was written after this time.
    pub since: Option<jiff::Timestamp>,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Of the run before this one.
    pub previous: bool,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
}

/// A command to run, and which of its streams the client wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent options, as the API has them")]
pub struct ExecRequest {
    /// The container.
    pub container: String,
    /// Program and arguments; empty for an attachment.
    pub command: Vec<String>,
    /// The client sends input.
    pub stdin: bool,
    /// The client wants output.
    pub stdout: bool,
    /// The client wants error output.
    pub stderr: bool,
    /// On a terminal.
    pub tty: bool,
}

/// Output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output (all output, on a terminal).
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// Otherwise, as said.
    Failed(String),
}

/// A command under way. Dropping it ends the command.
pub struct ExecSession {
    /// Input; dropping the sender closes it.
    pub stdin: mpsc::Sender<Bytes>,
    /// Output, until the command has closed all of it.
    pub output: mpsc::Receiver<Output>,
    /// New sizes of the terminal.
    pub resize: mpsc::Sender<TerminalSize>,
    /// Resolves when the command has ended.
    pub exit: BoxFuture<'static, Exit>,
}
