//! The process driver: a shim and Linux namespaces for each Pod.

pub(crate) mod channel;
mod shims;

pub use shims::Shims;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::driver::{
    Attachment, ContainerSpec, Driver, Error, Event, ExecSpec, Identity, Isolation, Sandbox, SandboxSpec, Watch,
};
use crate::shim::wire::{Reply, Request, memory_file};
use channel::Channel;

/// First user outside of the users of Pods when we are root. Beyond what distributions and other tools hand out.
const FIRST_USER: u32 = 0x7000_0000;
/// How many users a Pod has.
const USERS: u32 = 65_536;

/// Runs Pods as processes of this machine.
pub struct Process {
    pods: PathBuf,
    shims: Shims,
    /// Whether Pods can be users of this machine that nobody else is.
    has_range: bool,
    subordinate: Option<((u32, u32), (u32, u32))>,
    isolated: bool,
}

impl Process {
    /// Pods live in `pods`, one directory each.
    pub fn new(pods: PathBuf, shims: Shims) -> Self {
        Self { pods, shims, has_range: has_range(), subordinate: subordinate_ids(), isolated: true }
    }

    /// The same without any isolation: Pods are processes of this machine like any other.
    pub fn without_isolation(pods: PathBuf, shims: Shims) -> Self {
        Self { pods, shims, has_range: false, subordinate: None, isolated: false }
    }

    fn directory(&self, uid: &str) -> PathBuf {
        self.pods.join(uid)
    }
}

#[async_trait]
impl Driver for Process {
    async fn open(&self, uid: &str, spec: &SandboxSpec) -> Result<Arc<dyn Sandbox>, Error> {
        let directory = self.directory(uid);
        let text = serde_json::to_vec(spec).map_err(std::io::Error::from).map_err(Error::io("write sandbox.json"))?;
        tokio::fs::write(directory.join("sandbox.json"), text).await.map_err(Error::io("write sandbox.json"))?;
        self.shims.start(&directory).await?;
        Ok(Arc::new(Shim { directory }))
    }

    async fn find(&self, uid: &str) -> Option<Arc<dyn Sandbox>> {
        let directory = self.directory(uid);
        Channel::connect(&directory).await.ok()?;
        Some(Arc::new(Shim { directory }))
    }

    fn isolation(&self) -> Isolation {
        if !self.isolated {
            let summary = "none: --node=host was asked for; the Pod sees and may do what you see and may do".to_owned();
            return Isolation { summary, in_force: false };
        }
        let users = match (self.has_range, self.subordinate) {
            (true, _) => "users that own nothing on this machine",
            (false, Some(_)) => "your user and your subordinate users",
            (false, None) => "your user alone",
        };
        Isolation {
            in_force: true,
            summary: format!(
                "user, mount, pid, network, ipc and host name namespaces, a system call filter; processes run as {users}"
            ),
        }
    }

    fn identity(&self, users: &[(u32, u32)]) -> Result<Identity, Error> {
        if !self.isolated {
            let own = nix::unistd::geteuid().as_raw();
            return match users.iter().find(|(user, _)| *user != 0 && *user != own) {
                None => Ok(Identity::Own),
                Some((other, _)) => Err(Error::Refused(format!(
                    "a container wants to run as user {other}; with --node=host all run as user {own}: remove runAsUser"
                ))),
            };
        }
        if self.has_range {
            return Ok(Identity::Range { base: FIRST_USER, count: USERS });
        }
        if let Some((uids, gids)) = self.subordinate {
            return Ok(Identity::Subordinate { uids, gids });
        }
        let first = users.first().copied().unwrap_or((0, 0));
        match users.iter().find(|user| **user != first) {
            None => Ok(Identity::Single { uid: first.0, gid: first.1 }),
            Some(other) => Err(Error::Refused(format!(
                "containers of one Pod run as users {} and {}, which needs subordinate ids: have an administrator add \
                 this user to /etc/subuid and /etc/subgid, and install newuidmap",
                first.0, other.0
            ))),
        }
    }
}

/// Whether we are root, and of all of this machine's users: in a container without privilege root has few.
fn has_range() -> bool {
    let is_ours = |file: &str| {
        let map = std::fs::read_to_string(file).unwrap_or_default();
        map.lines().any(|line| {
            let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
                return false;
            };
            first <= u64::from(FIRST_USER) && u64::from(FIRST_USER) + u64::from(USERS) <= first + count
        })
    };
    nix::unistd::geteuid().is_root() && is_ours("/proc/self/uid_map") && is_ours("/proc/self/gid_map")
}

/// Subordinate ids of this user, when the helpers that map them are there.
fn subordinate_ids() -> Option<((u32, u32), (u32, u32))> {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok()??;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |program: &str| std::env::split_paths(&path).any(|part| part.join(program).is_file());
    if user.uid.is_root() || !has("newuidmap") || !has("newgidmap") {
        return None;
    }
    let range = |file: &str| -> Option<(u32, u32)> {
        std::fs::read_to_string(file).ok()?.lines().find_map(|line| {
            let mut parts = line.split(':');
            let owner = parts.next()?;
            let first = parts.next()?.parse().ok()?;
            let count = parts.next()?.parse().ok()?;
            (owner == user.name || owner == user.uid.to_string()).then_some((first, count))
        })
    };
    Some((range("/etc/subuid")?, range("/etc/subgid")?))
}

/// The socket of a running shim.
struct Shim {
    directory: PathBuf,
}

impl Shim {
    async fn ask(&self, request: &Request, descriptors: &[RawFd]) -> Result<(Reply, Vec<OwnedFd>), Error> {
        let channel = Channel::connect(&self.directory).await.map_err(|_| Error::Gone)?;
        channel.send(request, descriptors).await.map_err(Error::io("ask the shim"))?;
        match channel.receive().await.map_err(Error::io("hear the shim"))? {
            Some((Reply::Failed { message }, _)) => Err(Error::Refused(message)),
            Some(answer) => Ok(answer),
            None => Err(Error::Gone),
        }
    }
}

#[async_trait]
impl Sandbox for Shim {
    async fn watch(&self) -> Result<Watch, Error> {
        let channel = Channel::connect(&self.directory).await.map_err(|_| Error::Gone)?;
        channel.send(&Request::Watch, &[]).await.map_err(Error::io("watch the shim"))?;
        let mut now = Vec::new();
        loop {
            match channel.receive::<Reply>().await.map_err(Error::io("watch the shim"))? {
                Some((Reply::Container(event), _)) => now.push(event),
                Some((Reply::Synced, _)) => break,
                _ => return Err(Error::Gone),
            }
        }
        let (sender, events) = mpsc::channel::<Event>(64);
        tokio::spawn(async move {
            while let Ok(Some((Reply::Container(event), _))) = channel.receive::<Reply>().await {
                if sender.send(event).await.is_err() {
                    return;
                }
            }
        });
        Ok(Watch { now, events })
    }

    async fn start(&self, spec: &ContainerSpec, cgroups: Vec<OwnedFd>) -> Result<(), Error> {
        let file = memory_file(spec).map_err(Error::io("write the container's specification"))?;
        let mut descriptors = vec![file.as_raw_fd()];
        descriptors.extend(cgroups.iter().map(std::os::fd::AsRawFd::as_raw_fd));
        self.ask(&Request::Start, &descriptors).await.map(drop)
    }

    async fn signal(&self, container: &str, signal: i32) -> Result<(), Error> {
        self.ask(&Request::Signal { container: container.to_owned(), signal }, &[]).await.map(drop)
    }

    async fn execute(&self, spec: &ExecSpec, streams: [OwnedFd; 3]) -> Result<i32, Error> {
        let file = memory_file(spec).map_err(Error::io("write the command"))?;
        let channel = Channel::connect(&self.directory).await.map_err(|_| Error::Gone)?;
        let [input, output, errors] = &streams;
        let descriptors = [file.as_raw_fd(), input.as_raw_fd(), output.as_raw_fd(), errors.as_raw_fd()];
        channel.send(&Request::Exec, &descriptors).await.map_err(Error::io("ask the shim"))?;
        // Our copies must go: whoever reads the other ends waits for the last writer.
        drop(streams);
        match channel.receive::<Reply>().await.map_err(Error::io("hear the shim"))? {
            Some((Reply::Ended { code }, _)) => Ok(code),
            Some((Reply::Failed { message }, _)) => Err(Error::Refused(message)),
            _ => Err(Error::Gone),
        }
    }

    async fn attach(&self, container: &str, input: bool, outputs: [OwnedFd; 2]) -> Result<Attachment, Error> {
        let channel = Channel::connect(&self.directory).await.map_err(|_| Error::Gone)?;
        let descriptors = [outputs[0].as_raw_fd(), outputs[1].as_raw_fd()];
        let request = Request::Attach { container: container.to_owned(), input };
        channel.send(&request, &descriptors).await.map_err(Error::io("ask the shim"))?;
        drop(outputs);
        let input = match channel.receive::<Reply>().await.map_err(Error::io("hear the shim"))? {
            Some((Reply::Done, descriptors)) => descriptors.into_iter().next(),
            Some((Reply::Failed { message }, _)) => return Err(Error::Refused(message)),
            _ => return Err(Error::Gone),
        };
        let (input_ended, no_more) = oneshot::channel();
        let ended = async move {
            let closing = async {
                let _ = no_more.await;
                let _ = channel.send(&Request::CloseInput, &[]).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = channel.receive::<Reply>() => {}
                () = closing => {}
            }
        };
        Ok(Attachment { input, input_ended, ended: ended.boxed() })
    }

    async fn connect(&self, address: Ipv4Addr, port: u16) -> std::io::Result<tokio::net::TcpStream> {
        let (_, descriptors) = self.ask(&Request::Socket { stream: true }, &[]).await.map_err(std::io::Error::other)?;
        let socket = descriptors.into_iter().next().ok_or_else(|| std::io::Error::other("no socket came along"))?;
        let socket = tokio::net::TcpSocket::from_std_stream(std::net::TcpStream::from(socket));
        socket.connect(SocketAddr::from((address, port))).await
    }

    async fn close(&self, volumes: Vec<String>) -> Result<(), Error> {
        match self.ask(&Request::Close { volumes }, &[]).await {
            Ok(_) | Err(Error::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Gives a path to the Pod's root, when we are root and it is somebody else.
pub(crate) fn give(path: &Path, identity: &Identity, group: Option<u32>) -> std::io::Result<()> {
    let Identity::Range { base, .. } = identity else { return Ok(()) };
    std::os::unix::fs::lchown(path, Some(*base), Some(base + group.unwrap_or(0)))
}
