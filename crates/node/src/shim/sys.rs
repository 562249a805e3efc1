//! The few system calls that no library wraps safely. Each is a thin function whose caller need not think about memory.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::unistd::Pid;

/// Forks into new namespaces. `None` in the child.
///
/// Only for a process with one thread: the child shares nothing with the parent but copies of its pages, exactly as
/// after `fork`, so all of Rust goes on working in it.
pub fn fork_into(flags: CloneFlags) -> nix::Result<Option<Pid>> {
    debug_assert!(threads() <= 1, "fork of a process with threads");
    let flags = libc::c_long::from(flags.bits() | libc::SIGCHLD);
    // SAFETY: no stack and no CLONE_VM: this is fork with namespace flags; there is one thread, so no lock can be held
    // by somebody who does not exist in the child.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    let pid = i32::try_from(Errno::result(pid)?).map_err(|_| Errno::EOVERFLOW)?;
    Ok((pid != 0).then(|| Pid::from_raw(pid)))
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, std::iter::Iterator::count)
}

/// Whether children that end are forgotten by the kernel instead of being kept until somebody asks how.
pub fn forget_children(forget: bool) -> nix::Result<()> {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    let handler = if forget { SigHandler::SigIgn } else { SigHandler::SigDfl };
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: neither way runs code of ours in a signal handler.
    unsafe { sigaction(Signal::SIGCHLD, &action) }.map(drop)
}

/// A descriptor for a process, to enter its namespaces.
pub fn process_descriptor(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: takes two integers, returns a new descriptor that nobody else owns.
    let raw = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })?;
    let raw = i32::try_from(raw).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Ends this process at once: no destructors, no buffers of the parent flushed twice.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: never returns, touches no memory.
    unsafe { libc::_exit(code) }
}

/// Makes `descriptor` the standard stream `number`.
pub fn become_stream(descriptor: BorrowedFd<'_>, number: i32) -> nix::Result<()> {
    // SAFETY: both are plain integers; the standard streams are not owned by any Rust value.
    Errno::result(unsafe { libc::dup2(descriptor.as_raw_fd(), number) }).map(drop)
}

/// Closes every descriptor from `first` on, except that they stay open until `exec` when `on_exec` is set.
pub fn close_from(first: u32, on_exec: bool) -> nix::Result<()> {
    let flags = if on_exec { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: called in a child that uses none of these descriptors again, or only marks them.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Closes every descriptor but the standard streams and this one, which gets another number.
pub fn keep_only(descriptor: OwnedFd) -> OwnedFd {
    const KEPT: i32 = 3;
    // SAFETY: dup2 takes integers. Whatever number 3 was is closed by it, and nobody here uses it again: the caller goes
    // on with the returned descriptor alone.
    unsafe { libc::dup2(descriptor.as_raw_fd(), KEPT) };
    if descriptor.as_raw_fd() == KEPT {
        let _ = close_from(KEPT.cast_unsigned() + 1, false);
        return descriptor;
    }
    std::mem::forget(descriptor);
    let _ = close_from(KEPT.cast_unsigned() + 1, false);
    own(KEPT)
}

/// Makes the terminal on standard input the controlling one of this session.
pub fn take_terminal() -> nix::Result<()> {
    // SAFETY: an ioctl that takes an integer.
    Errno::result(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }).map(drop)
}

/// Drops a capability from the bounding set, for good.
pub fn drop_from_bounding_set(capability: u32) -> nix::Result<()> {
    // SAFETY: prctl with integers.
    Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }).map(drop)
}

/// Raises an ambient capability, so that it survives `exec` by an ordinary user.
pub fn raise_ambient(capability: u32) -> nix::Result<()> {
    // SAFETY: prctl with integers.
    Errno::result(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0) }).map(drop)
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Sets effective, permitted and inheritable capabilities of this process.
pub fn set_capabilities(effective: u64, permitted: u64, inheritable: u64) -> nix::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = CapabilityHeader { version: VERSION_3, pid: 0 };
    let half = |word: u32| {
        let part = |set: u64| u32::try_from((set >> (32 * word)) & 0xffff_ffff).unwrap_or(0);
        CapabilityData { effective: part(effective), permitted: part(permitted), inheritable: part(inheritable) }
    };
    let data = [half(0), half(1)];
    // SAFETY: the two structs have the kernel's layout for version 3 and outlive the call.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) }).map(drop)
}

/// Brings the loopback interface of this network namespace up.
pub fn bring_loopback_up() -> nix::Result<()> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: an all-zero ifreq is valid; the name is shorter than its array; the kernel reads name and flags only.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
            *slot = (*byte).cast_signed();
        }
        #[expect(clippy::cast_possible_truncation, reason = "both flags are below 0x100")]
        {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        }
        Errno::result(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)).map(drop)
    }
}

/// Makes a tun device: a network interface whose other side is a descriptor.
pub fn open_tun(name: &str) -> std::io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let device = std::fs::File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: an all-zero ifreq is valid; the name is shorter than its array; the kernel reads name and flags and
    // writes the name back.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *slot = byte.cast_signed();
        }
        #[expect(clippy::cast_possible_truncation, reason = "both flags are below 0x8000")]
        {
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        }
        Errno::result(libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request))?;
    }
    Ok(device.into())
}

/// Takes ownership of a descriptor that a system call has just made for us.
pub fn own(raw: std::os::fd::RawFd) -> OwnedFd {
    // SAFETY: callers pass what accept4 returned or what came along with a message, and nothing else.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// Tells a terminal its size.
pub fn resize_terminal(terminal: BorrowedFd<'_>, rows: u16, columns: u16) -> nix::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel reads one winsize, which outlives the call.
    Errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }).map(drop)
}

/// Lets the async runtime watch a descriptor.
pub fn register(descriptor: OwnedFd) -> std::io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: the value owns its descriptor and gives it away to nobody, so it stays open as long as it is registered.
    Ok(unsafe { tokio::io::unix::AsyncFd::register(descriptor) }?)
}

/// A pipe whose reading end does not wait.
pub fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = std::io::pipe()?;
    let reader = OwnedFd::from(reader);
    nix::fcntl::fcntl(&reader, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    Ok((reader, writer.into()))
}
