//! What `orrery` and a shim say to each other.
//!
//! One Unix `SOCK_SEQPACKET` connection a request: a small JSON message each way, file descriptors beside it. A container's
//! specification may be long (its environment), so it travels in a memory file, not in the message.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message on the socket.
const LONGEST: usize = 16 * 1024;
/// The most descriptors beside one message.
const MOST_DESCRIPTORS: usize = 16;

/// What the shim needs before it can make the Pod's namespaces; kept in `sandbox.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Host name inside the Pod.
    pub hostname: String,
    /// Which users of this machine the Pod's users are.
    pub identity: Identity,
    /// Directories that volumes come from, by volume name.
    pub volumes: BTreeMap<String, PathBuf>,
    /// The group that volumes belong to, where only the Pod's own root can give them to it.
    pub volume_group: Option<u32>,
    /// Volumes that live in memory: bytes at most, by volume name.
    pub memory_volumes: BTreeMap<String, Option<u64>>,
    /// Layers of imported images, by image id, top layer first.
    pub images: BTreeMap<String, Vec<PathBuf>>,
    /// The Pod's place in the Pod network; none means loopback only.
    pub network: Option<Network>,
    /// Programs of this machine that containers of the host image have, by where: our own and the agent's.
    pub programs: BTreeMap<String, PathBuf>,
}

/// How users inside map to users outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Identity {
    /// As root: user 0 of the Pod is `base` outside, a user who owns nothing.
    Range {
        /// First user id outside.
        base: u32,
        /// How many.
        count: u32,
    },
    /// As an ordinary user: one id inside is us, there is no other.
    Single {
        /// User id inside.
        uid: u32,
        /// Group id inside.
        gid: u32,
    },
    /// As an ordinary user with subordinate ids (`/etc/subuid`): user 0 is us, the rest is from there.
    Subordinate {
        /// First subordinate user id and how many.
        uids: (u32, u32),
        /// First subordinate group id and how many.
        gids: (u32, u32),
    },
    /// Without isolation: everything is us.
    Own,
}

/// The Pod's place in the Pod network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Network {
    /// The Pod's address.
    pub address: std::net::Ipv4Addr,
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// Where everything else is reached.
    pub gateway: std::net::Ipv4Addr,
    /// Directory of the process that holds the network's namespace.
    pub holder: PathBuf,
}

/// The Pod network; kept in the holder's `network.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HolderSpec {
    /// Whose network it is.
    pub identity: Identity,
    /// Address of the bridge.
    pub gateway: std::net::Ipv4Addr,
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// Addresses of Services.
    pub services: (std::net::Ipv4Addr, u8),
}

/// A container to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Its name.
    pub name: String,
    /// How many times it was started before.
    pub attempt: u32,
    /// Its root file system.
    pub root: Root,
    /// Whether the root file system can be written.
    pub read_only_root: bool,
    /// What is mounted where.
    pub mounts: Vec<Mount>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// Where it starts.
    pub working_directory: String,
    /// Who it runs as and what it may do.
    pub confinement: Confinement,
    /// Whether it sees the other containers' processes.
    pub share_processes: bool,
    /// Where its last words are read from.
    pub termination_log: String,
    /// Whether it has an input that a client can write.
    pub input: Input,
    /// Whether it is on a terminal.
    pub terminal: bool,
    /// How many files at the front of the descriptors are `cgroup.procs`.
    pub cgroups: usize,
}

/// Whose input a container has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Input {
    /// None: it reads the end at once.
    #[default]
    None,
    /// What the first client writes, to its end.
    Once,
    /// What any client writes.
    Open,
}

/// Where the root file system comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Root {
    /// This machine's, overlaid.
    Host {
        /// Paths that must not be seen.
        hidden: Vec<PathBuf>,
    },
    /// An imported image, by id.
    Image(String),
}

/// A volume mounted into a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// The volume.
    pub volume: String,
    /// Part of it.
    pub sub_path: String,
    /// Where.
    pub path: String,
    /// Whether it can be written.
    pub read_only: bool,
}

/// Who a process runs as and what it may do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confinement {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// More groups.
    pub groups: Vec<u32>,
    /// Capabilities, one bit each.
    pub capabilities: u64,
    /// Whether a system call filter is in force.
    pub filter: bool,
    /// Whether set-user-id programs gain nothing.
    pub no_new_privileges: bool,
}

/// What `orrery` asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// Start a container: the specification in the first descriptor, then its `cgroup.procs` files.
    Start,
    /// Send a signal to a container's command.
    Signal {
        /// The container.
        container: String,
        /// The signal's number.
        signal: i32,
    },
    /// Run a command in a container: an [`ExecSpec`] in the first descriptor, then stdin, stdout and stderr.
    Exec,
    /// Look at a container's output: two descriptors to write it to. The answer brings its input, if it has one and it is
    /// wanted; another comes when it ends.
    Attach {
        /// The container.
        container: String,
        /// Whether the client writes its input.
        input: bool,
    },
    /// Said after an attachment: the client has no more input.
    CloseInput,
    /// A socket of the given kind made inside the Pod's network.
    Socket {
        /// Stream (TCP) or datagram (UDP).
        stream: bool,
    },
    /// To the holder: a cable to the network namespace that comes along.
    Plug,
    /// To the holder: the tun device that leads out.
    WayOut,
    /// Tell what is there, then what happens.
    Watch,
    /// End everything, remove what the Pod wrote outside its volumes and in these volumes, and go.
    Close {
        /// Volumes that end with the Pod.
        volumes: Vec<String>,
    },
}

/// A command to run in a running container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecSpec {
    /// The container.
    pub container: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether the descriptors are a terminal.
    pub terminal: bool,
}

/// What a shim answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// It is done; a descriptor may come along.
    Done,
    /// It cannot be done.
    Failed {
        /// Why.
        message: String,
    },
    /// A command run by [`Request::Exec`] ended.
    Ended {
        /// Exit code, 128 + signal when killed.
        code: i32,
    },
    /// What a container is now.
    Container(Event),
    /// Everything that was there has been told.
    Synced,
}

/// What a container is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The container.
    pub container: String,
    /// Which start of it.
    pub attempt: u32,
    /// Its state.
    pub state: State,
}

/// State of a started container; kept in its `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Its command runs.
    Running {
        /// Milliseconds since 1970.
        started: i64,
    },
    /// It ended, or never came to run.
    Ended(Exit),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, 128 + signal when killed.
    pub code: i32,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Why it could not be started.
    pub refused: Option<String>,
    /// Milliseconds since 1970.
    pub started: i64,
    /// Milliseconds since 1970.
    pub finished: i64,
}

/// The first line a shim writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// The Pod's namespaces are there.
    Ready {
        /// What is less than the best, in words.
        remarks: Vec<String>,
    },
    /// The kernel refused a step.
    Refused {
        /// The step.
        step: String,
        /// Step and reason.
        message: String,
    },
}

/// Sends one message with descriptors beside it.
pub fn send<T: Serialize>(socket: impl AsFd, message: &T, descriptors: &[RawFd]) -> std::io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let parts = [std::io::IoSlice::new(&text)];
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control: &[ControlMessage<'_>] = if descriptors.is_empty() { &[] } else { &rights };
    sendmsg::<()>(socket.as_fd().as_raw_fd(), &parts, control, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives one message; `None` when the other side is gone.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> std::io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut buffer = vec![0_u8; LONGEST];
    let mut control = nix::cmsg_space!([RawFd; MOST_DESCRIPTORS]);
    let mut parts = [std::io::IoSliceMut::new(&mut buffer)];
    let raw = socket.as_fd().as_raw_fd();
    let received = recvmsg::<()>(raw, &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            descriptors.extend(raw.into_iter().map(super::sys::own));
        }
    }
    let length = received.bytes;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&buffer[..length])?, descriptors)))
}

/// Puts a long value into a memory file.
pub fn memory_file<T: Serialize>(value: &T) -> std::io::Result<OwnedFd> {
    let descriptor = nix::sys::memfd::memfd_create(c"orrery", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(descriptor);
    file.write_all(&serde_json::to_vec(value)?)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads a long value back.
pub fn from_memory_file<T: DeserializeOwned>(descriptor: OwnedFd) -> std::io::Result<T> {
    let mut text = Vec::new();
    let mut file = std::fs::File::from(descriptor);
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
