//! What runs a Pod's containers. The node decides; a driver does.
//!
//! The trait is narrow on purpose: the *process* driver (namespaces, a shim for each Pod) implements it today, a
//! Docker-compatible engine can tomorrow.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

pub use crate::shim::wire::{
    Confinement, ContainerSpec, Event, ExecSpec, Exit, Identity, Input, Mount, Network, Root, SandboxSpec, State,
};

/// Why a driver did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel (or engine) refuses to isolate.
    #[error("this machine does not let us isolate the Pod ({step}): {message}")]
    Isolation {
        /// The step it refused.
        step: String,
        /// Its words.
        message: String,
    },
    /// The container's command could not be started.
    #[error("{0}")]
    Refused(String),
    /// The Pod's processes are gone.
    #[error("the Pod's shim is gone")]
    Gone,
    /// Something of this machine failed.
    #[error("{doing}")]
    Io {
        /// What we were doing.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// What is in force around a Pod, for its condition.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    /// In one line.
    pub summary: String,
    /// Whether there is any.
    pub in_force: bool,
}

/// Runs Pods.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Makes a Pod's sandbox. `uid` is the Pod's, and a directory of that name is the Pod's own.
    async fn open(&self, uid: &str, spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>, Error>;
    /// Finds the sandbox of a Pod again that was opened earlier, perhaps by an earlier process.
    async fn find(&self, uid: &str) -> Option<Arc<dyn Sandbox>>;
    /// What a Pod is isolated by.
    fn isolation(&self) -> Isolation;
    /// Which users a Pod's users are, given the ids its containers ask for.
    fn identity(&self, users: &[(u32, u32)]) -> Result<Identity, Error>;
}

/// A Pod's processes.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Tells what is there, then everything that happens, until the sandbox is gone.
    async fn watch(&self) -> Result<Watch, Error>;
    /// Starts a container; returns when its command runs.
    async fn start(&self, spec: &ContainerSpec, cgroups: Vec<OwnedFd>) -> Result<(), Error>;
    /// Signals a container. One that has ended is no error.
    async fn signal(&self, container: &str, signal: i32) -> Result<(), Error>;
    /// Runs a command with the given standard streams; returns its exit code when it has ended.
    async fn execute(&self, spec: &ExecSpec, streams: [OwnedFd; 3]) -> Result<i32, Error>;
    /// Looks at a container's output: it is written to the given streams from now on. `input` asks for its input, too.
    async fn attach(&self, container: &str, input: bool, outputs: [OwnedFd; 2]) -> Result<Attachment, Error>;
    /// Connects from inside the Pod.
    async fn connect(&self, address: Ipv4Addr, port: u16) -> std::io::Result<tokio::net::TcpStream>;
    /// Ends everything. Volumes named are emptied.
    async fn close(&self, volumes: Vec<String>) -> Result<(), Error>;
}

/// A view of a running container.
pub struct Attachment {
    /// Where its input is written to, or its terminal, when it has one and it was asked for.
    pub input: Option<OwnedFd>,
    /// Dropped or sent: the client has no more input.
    pub input_ended: oneshot::Sender<()>,
    /// Resolves when the container has ended. Dropping it detaches.
    pub ended: BoxFuture<'static, ()>,
}

/// What a sandbox tells.
pub struct Watch {
    /// What was there at the beginning.
    pub now: Vec<Event>,
    /// What happens; ends with the sandbox.
    pub events: mpsc::Receiver<Event>,
}
