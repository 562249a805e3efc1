//! The holder: one process that keeps the Pod network's namespace, for as long as there are Pods on it.
//!
//! It owns a user namespace, which is the parent of every Pod's, and in it a network namespace with a bridge. It moves no
//! byte: it plugs Pods in and hands out sockets and the way out (a tun device) to `orrery`, which serves names, Services
//! and the outside world with them. So Pods keep talking to each other while `orrery` restarts.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, poll};
use nix::sched::CloneFlags;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, accept4, listen, socket};

use super::netlink::{Netlink, Way};
use super::wire::{HolderSpec, Reply, Request, receive, send};
use super::{During as _, Error, identity, sandbox, sys};

const BRIDGE: &str = "pods";
const WAY_OUT: &str = "out";
/// How often, in milliseconds, an idle holder looks whether its plane is still there at all.
const LOOK_AGAIN: u16 = 5000;

/// Makes the network and serves it. Returns at once in the process that was started, never in the one that serves.
pub fn main(directory: &Path, spec: &HolderSpec) -> Result<(), Error> {
    let listener = sandbox::bind_in(directory).during("make the network's socket")?;
    sandbox::make_namespaces(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET, |process, uid, gid| {
        identity::write_holder_maps(process, &spec.identity, uid, gid)
    })?;
    identity::assume_root(&spec.identity).during("become the network's root")?;
    let out = make_network(spec)?;
    if sys::fork_into(CloneFlags::empty()).during("leave a process behind")?.is_some() {
        return Ok(());
    }
    listen(&listener, Backlog::MAXCONN).during("listen on the network's socket")?;
    let _ = nix::unistd::setsid();
    let _ = nix::sys::prctl::set_name(c"orrery-network");
    if sandbox::report_ready(Vec::new()).is_ok() {
        serve(directory, &listener, &out);
    }
    sys::exit_now(0);
}

fn make_network(spec: &HolderSpec) -> Result<OwnedFd, Error> {
    let mut netlink = Netlink::open().during("open netlink")?;
    netlink.bring_up("lo").during("bring loopback up")?;
    netlink.make_bridge(BRIDGE, spec.gateway).during("make the bridge")?;
    netlink.add_address(BRIDGE, spec.gateway, spec.prefix).during("address the bridge")?;
    netlink.bring_up(BRIDGE).during("bring the bridge up")?;
    // Every Service address is ours: whoever listens on one serves it.
    netlink.add_route(spec.services, Way::Local).during("take the Service addresses")?;
    let out = sys::open_tun(WAY_OUT).during("make the way out (/dev/net/tun)")?;
    netlink.bring_up(WAY_OUT).during("bring the way out up")?;
    netlink.add_route((std::net::Ipv4Addr::UNSPECIFIED, 0), Way::Interface(WAY_OUT)).during("route the way out")?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").during("forward packets of Pods")?;
    Ok(out)
}

/// Waits for a caller; false when nobody can come any more, because the plane's directory and our socket in it are gone.
fn is_called(directory: &Path, listener: &OwnedFd) -> bool {
    loop {
        let mut polled = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, LOOK_AGAIN) {
            Ok(0) if matches!(directory.try_exists(), Ok(false)) => return false,
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

fn serve(directory: &Path, listener: &OwnedFd, out: &OwnedFd) {
    let _ = nix::fcntl::fcntl(listener, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()));
    let mut plugged: u32 = 0;
    while is_called(directory, listener) {
        let Ok(caller) = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) else { return };
        let caller = sys::own(caller);
        let Ok(Some((request, descriptors))) = receive::<Request>(&caller) else { continue };
        let answered = match request {
            Request::Plug => {
                plugged = plugged.wrapping_add(1);
                match plug(plugged, descriptors) {
                    Ok(()) => send(&caller, &Reply::Done, &[]),
                    Err(error) => send(&caller, &Reply::Failed { message: error.to_string() }, &[]),
                }
            }
            Request::Socket { stream } => match inet_socket(stream) {
                Ok(made) => send(&caller, &Reply::Done, &[made.as_raw_fd()]),
                Err(error) => send(&caller, &Reply::Failed { message: error.to_string() }, &[]),
            },
            Request::WayOut => send(&caller, &Reply::Done, &[out.as_raw_fd()]),
            Request::Close { .. } => {
                let _ = send(&caller, &Reply::Done, &[]);
                return;
            }
            _ => send(&caller, &Reply::Failed { message: "the network does not do that".to_owned() }, &[]),
        };
        let _ = answered;
    }
}

/// A socket of the network namespace that this process is in.
pub fn inet_socket(stream: bool) -> nix::Result<OwnedFd> {
    let kind = if stream { SockType::Stream } else { SockType::Datagram };
    socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
}

fn plug(number: u32, descriptors: Vec<OwnedFd>) -> std::io::Result<()> {
    let namespace = descriptors.into_iter().next().ok_or_else(|| std::io::Error::other("no namespace came along"))?;
    Netlink::open()?.make_cable(&format!("pod{number:x}"), BRIDGE, "eth0", namespace.as_raw_fd())
}

/// In a Pod: asks the holder for a cable and sets up this end.
pub fn join(holder: &OwnedFd, place: &super::wire::Network) -> Result<(), Error> {
    let namespace = File::open("/proc/self/ns/net").during("open our network namespace")?;
    send(holder, &Request::Plug, &[namespace.as_raw_fd()]).during("ask for a cable")?;
    match receive::<Reply>(holder).during("wait for the cable")? {
        Some((Reply::Done, _)) => {}
        Some((Reply::Failed { message }, _)) => return Err(std::io::Error::other(message)).during("plug the Pod in"),
        _ => return Err(std::io::Error::other("the holder is gone")).during("plug the Pod in"),
    }
    let mut netlink = Netlink::open().during("open netlink")?;
    netlink.add_address("eth0", place.address, place.prefix).during("address the Pod")?;
    netlink.bring_up_at("eth0", place.address).during("bring the Pod's interface up")?;
    let everywhere = (std::net::Ipv4Addr::UNSPECIFIED, 0);
    netlink.add_route(everywhere, Way::Gateway(place.gateway)).during("route the Pod")
}
