//! Makes a Pod's namespaces and steps into them.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::OnceLock;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket,
};
use nix::unistd::{Pid, getegid, geteuid, getpid};

use super::wire::{Identity, Report, SandboxSpec};
use super::{During as _, Error, holder, host, identity, root, sys};

/// Where the shim's own mount namespace shows the Pod's directory, its volumes and its images. A place that every
/// machine has and no Pod gets from the host.
const STAGE: &str = "/tmp";
/// Another place, of a Pod without namespaces.
static OTHER_STAGE: OnceLock<String> = OnceLock::new();

/// Where the Pod's directory, its volumes and its images are seen.
pub fn stage() -> &'static str {
    OTHER_STAGE.get().map_or(STAGE, String::as_str)
}

/// Sets another place, once and before anybody looks.
pub fn set_stage(place: &Path) {
    let _ = OTHER_STAGE.set(place.to_string_lossy().into_owned());
}

/// Which process we are after the fork.
pub enum Side {
    /// The one that `orrery` started.
    Outside,
    /// The first process of the Pod.
    Inside(Box<Shim>),
}

/// The Pod's first process.
pub struct Shim {
    pub spec: SandboxSpec,
    pub listener: OwnedFd,
}

/// Makes the namespaces. Returns on both sides of the fork.
pub fn enter(directory: &Path) -> Result<Side, Error> {
    let text = fs::read(directory.join("sandbox.json")).during("read sandbox.json")?;
    let spec: SandboxSpec = serde_json::from_slice(&text).map_err(std::io::Error::from).during("parse sandbox.json")?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    if spec.identity == Identity::Own {
        return host::enter(directory, spec);
    }
    let listener = bind_in(directory).during("make the Pod's socket")?;

    let holder = spec.network.as_ref().map(|network| join_holder(&network.holder)).transpose()?;
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    make_namespaces(flags, |process, uid, gid| match holder {
        Some(_) => identity::write_nested_maps(process, &spec.identity),
        None => identity::write_maps(process, &spec.identity, uid, gid),
    })?;
    let sources = open_sources(directory, &spec)?;
    identity::assume(&spec.identity).during("become the Pod's root")?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .during("make mounts private")?;
    set_up(&spec, &sources)?;
    nix::unistd::sethostname(&spec.hostname).during("set the host name")?;
    sys::bring_loopback_up().during("bring loopback up")?;
    if let (Some(holder), Some(place)) = (&holder, &spec.network) {
        holder::join(holder, place)?;
    }

    if sys::fork_into(CloneFlags::CLONE_NEWPID).during("make the pid namespace")?.is_some() {
        return Ok(Side::Outside);
    }
    listen(&listener, Backlog::MAXCONN).during("listen on the Pod's socket")?;
    nix::unistd::setsid().during("start a session")?;
    // Nothing in the Pod may read this process's memory or descriptors.
    nix::sys::prctl::set_dumpable(false).during("hide from tracing")?;
    Ok(Side::Inside(Box::new(Shim { spec, listener })))
}

/// Tells the caller that the Pod is there, and lets go of its pipe.
pub fn report_ready(remarks: Vec<String>) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(&Report::Ready { remarks })?;
    line.push(b'\n');
    std::io::stdout().write_all(&line)?;
    std::io::stdout().flush()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for stream in 0..3 {
        sys::become_stream(std::os::fd::AsFd::as_fd(&null), stream)?;
    }
    Ok(())
}

/// Connects to the holder of the Pod network and enters its user namespace, whose child the Pod's will be.
fn join_holder(directory: &Path) -> Result<OwnedFd, Error> {
    let anchor = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(directory);
    let anchor = anchor.during("open the network's directory")?;
    let path = format!("/proc/self/fd/{}/shim.sock", anchor.as_raw_fd());
    let caller = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
    let caller = caller.during("reach the network's holder")?;
    let address = UnixAddr::new(path.as_str()).during("reach the network's holder")?;
    connect(caller.as_raw_fd(), &address).during("reach the network's holder")?;
    let peer = getsockopt(&caller, PeerCredentials).during("ask who holds the network")?;
    let process = sys::process_descriptor(Pid::from_raw(peer.pid())).during("find the network's holder")?;
    setns(&process, CloneFlags::CLONE_NEWUSER).during("enter the network's user namespace")?;
    Ok(caller)
}

/// Makes the socket. The process that stays listens on it: the kernel tells callers who that was.
pub fn bind_in(directory: &Path) -> std::io::Result<OwnedFd> {
    let _ = fs::remove_file(directory.join("shim.sock"));
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    // A socket's path is at most 108 bytes long; a data directory's may be longer.
    let anchor = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(directory)?;
    let path = format!("/proc/self/fd/{}/shim.sock", anchor.as_raw_fd());
    bind(listener.as_raw_fd(), &UnixAddr::new(path.as_str())?)?;
    Ok(listener)
}

/// Unshares. The maps are written by a helper that stays outside, because inside we no
/// longer have the right to.
pub fn make_namespaces(
    flags: CloneFlags,
    write_maps: impl FnOnce(Pid, u32, u32) -> std::io::Result<()>,
) -> Result<(), Error> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let (go_reader, go_writer) = std::io::pipe().during("make a pipe")?;
    let (mut done_reader, done_writer) = std::io::pipe().during("make a pipe")?;
    let shim: Pid = getpid();
    let Some(helper) = sys::fork_into(CloneFlags::empty()).during("fork the map writer")? else {
        drop((go_writer, done_reader));
        let answer = wait_and_map(go_reader, || write_maps(shim, uid, gid));
        let _ = (&done_writer).write_all(answer.err().map(|error| error.to_string()).unwrap_or_default().as_bytes());
        sys::exit_now(0);
    };
    drop((go_reader, done_writer));
    let unshared = unshare(flags);
    // Dropping the pipe without a byte tells the helper that there is nothing to map.
    if unshared.is_ok() {
        (&go_writer).write_all(b"!").during("wake the map writer")?;
    }
    drop(go_writer);
    let mut complaint = String::new();
    done_reader.read_to_string(&mut complaint).during("wait for the map writer")?;
    let _ = nix::sys::wait::waitpid(helper, None);
    unshared.during("make namespaces")?;
    if complaint.is_empty() { Ok(()) } else { Err(std::io::Error::other(complaint)).during("map the Pod's users") }
}

fn wait_and_map(mut go: std::io::PipeReader, write_maps: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<()> {
    let mut byte = [0];
    if go.read(&mut byte)? == 0 {
        return Ok(());
    }
    write_maps()
}

/// What the stage shows: opened while we are still the user whose directories these are, in the mount namespace in which
/// they will be mounted.
struct Sources {
    pod: OwnedFd,
    volumes: Vec<(String, OwnedFd)>,
    images: Vec<(String, Vec<OwnedFd>)>,
    programs: Vec<OwnedFd>,
}

fn open_sources(directory: &Path, spec: &SandboxSpec) -> Result<Sources, Error> {
    let open = |path: &Path| -> Result<OwnedFd, Error> {
        File::options()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path)
            .map(OwnedFd::from)
            .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            .during("open what the Pod mounts")
    };
    let mut sources = Sources {
        pod: open(directory)?,
        volumes: Vec::new(),
        images: Vec::new(),
        programs: spec.programs.values().map(|path| open(path)).collect::<Result<_, _>>()?,
    };
    for (name, path) in &spec.volumes {
        sources.volumes.push((name.clone(), open(path)?));
    }
    for (id, layers) in &spec.images {
        let layers = layers.iter().map(|layer| open(layer)).collect::<Result<_, _>>()?;
        sources.images.push((id.clone(), layers));
    }
    Ok(sources)
}

/// Puts into a directory what belongs there.
type Fill = fn(&Path) -> Result<(), Error>;

fn set_up(spec: &SandboxSpec, sources: &Sources) -> Result<(), Error> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("stage"), STAGE, Some("tmpfs"), flags, Some("mode=0755,size=1m")).during("mount the stage")?;
    let show = |source: &OwnedFd, target: String| -> Result<(), Error> {
        make_directory(&target)?;
        bind_descriptor(source, &target)
    };
    for (name, fill) in
        [("skeleton", root::make_skeleton as Fill), ("host", root::make_host_skeleton), ("root", |_| Ok(()))]
    {
        let place = format!("{STAGE}/{name}");
        make_directory(&place)?;
        fill(Path::new(&place))?;
    }
    show(&sources.pod, format!("{STAGE}/pod"))?;
    for (name, source) in &sources.volumes {
        let target = format!("{STAGE}/volumes/{name}");
        show(source, target.clone())?;
        if let Some(group) = spec.volume_group {
            give_to_group(Path::new(&target), group).during("give a volume to its group")?;
        }
    }
    for (name, limit) in &spec.memory_volumes {
        let target = format!("{STAGE}/volumes/{name}");
        make_directory(&target)?;
        let size = limit.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
        mount(Some("memory"), target.as_str(), Some("tmpfs"), flags, Some(format!("mode=0777{size}").as_str()))
            .during("mount a volume in memory")?;
    }
    for (id, layers) in &sources.images {
        for (number, layer) in layers.iter().enumerate() {
            show(layer, format!("{STAGE}/images/{id}/{number}"))?;
        }
    }
    for (number, program) in sources.programs.iter().enumerate() {
        let target = format!("{STAGE}/program-{number}");
        File::create(&target).during("make the program's mount point")?;
        bind_descriptor(program, &target)?;
    }
    Ok(())
}

/// Gives a volume and what is in it to a group; what somebody else in the Pod made there stays theirs to give.
fn give_to_group(path: &Path, group: u32) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
    let data = fs::symlink_metadata(path)?;
    if data.gid() != group {
        lchown(path, None, Some(group))?;
    }
    if data.is_symlink() {
        return Ok(());
    }
    // As a kubelet does: the group may read, and in a directory what is made there is the group's, too.
    let wanted = data.mode() & 0o7777 | if data.is_dir() { 0o2050 } else { 0o040 };
    if data.mode() & 0o7777 != wanted {
        fs::set_permissions(path, fs::Permissions::from_mode(wanted))?;
    }
    if data.is_dir() {
        for entry in fs::read_dir(path)? {
            give_to_group(&entry?.path(), group)?;
        }
    }
    Ok(())
}

fn make_directory(path: &str) -> Result<(), Error> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).during("make a directory of the stage")
}

fn bind_descriptor(source: &OwnedFd, target: &str) -> Result<(), Error> {
    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
    mount(Some(source.as_str()), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .during("bind a source to the stage")
}
