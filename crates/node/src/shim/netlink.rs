//! The few questions we have for the kernel about network interfaces, over netlink.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

const REQUEST_AND_ANSWER: u16 = 0x5;
const CREATE_NEW: u16 = 0x600;

/// A connection to the kernel's routing tables of one network namespace.
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// A message under construction: a header, a body, attributes.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(body);
        Self { bytes }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// An attribute that holds attributes.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self { bytes: Vec::new() };
        fill(&mut inner);
        self.attribute(kind, &inner.bytes)
    }
}

/// `struct ifinfomsg`.
fn link_body(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&index.to_ne_bytes());
    body.extend_from_slice(&flags.to_ne_bytes());
    body.extend_from_slice(&change.to_ne_bytes());
    body
}

fn text(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

impl Netlink {
    /// Of the network namespace that this process is in.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    fn ask(&mut self, mut message: Message) -> io::Result<()> {
        self.sequence += 1;
        let length = u32::try_from(message.bytes.len()).unwrap_or(u32::MAX);
        message.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        message.bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        send(self.socket.as_raw_fd(), &message.bytes, MsgFlags::empty())?;
        let mut answer = [0; 4096];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        // An answer is always `struct nlmsgerr`: the header, then an error number, 0 for none.
        let error = answer.get(16..20).filter(|_| length >= 20).and_then(|bytes| bytes.try_into().ok());
        match error.map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Err(io::Error::other("the kernel's answer is too short")),
        }
    }

    /// Brings an interface up.
    pub fn bring_up(&mut self, name: &str) -> io::Result<()> {
        let up = libc::IFF_UP.cast_unsigned();
        let body = link_body(index(name)?, up, up);
        self.ask(Message::new(libc::RTM_NEWLINK, REQUEST_AND_ANSWER, &body))
    }

    /// Brings an interface up with the hardware address that belongs to an address. With one by chance, a Pod that has the
    /// address of another that is gone would hear nothing until everybody who knew the other asks again who has it.
    pub fn bring_up_at(&mut self, name: &str, address: Ipv4Addr) -> io::Result<()> {
        let up = libc::IFF_UP.cast_unsigned();
        let mut message = Message::new(libc::RTM_NEWLINK, REQUEST_AND_ANSWER, &link_body(index(name)?, up, up));
        message.attribute(libc::IFLA_ADDRESS, &hardware(address));
        self.ask(message)
    }

    /// Makes a bridge with a hardware address of its own. Without, it has the lowest of its cables', and another one when
    /// that cable goes: everybody else would send into the void until they ask again who the gateway is.
    pub fn make_bridge(&mut self, name: &str, gateway: Ipv4Addr) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK, REQUEST_AND_ANSWER | CREATE_NEW, &link_body(0, 0, 0));
        message.attribute(libc::IFLA_IFNAME, &text(name));
        message.attribute(libc::IFLA_ADDRESS, &hardware(gateway));
        message.nested(libc::IFLA_LINKINFO, |info| {
            info.attribute(libc::IFLA_INFO_KIND, b"bridge");
        });
        self.ask(message)
    }

    /// Makes a cable: one end here on a bridge, the other in a network namespace under the name `far`.
    pub fn make_cable(&mut self, near: &str, bridge: &str, far: &str, namespace: RawFd) -> io::Result<()> {
        const VETH_INFO_PEER: u16 = 1;
        let up = libc::IFF_UP.cast_unsigned();
        let mut message = Message::new(libc::RTM_NEWLINK, REQUEST_AND_ANSWER | CREATE_NEW, &link_body(0, up, up));
        message.attribute(libc::IFLA_IFNAME, &text(near));
        message.attribute(libc::IFLA_MASTER, &index(bridge)?.to_ne_bytes());
        message.nested(libc::IFLA_LINKINFO, |info| {
            info.attribute(libc::IFLA_INFO_KIND, b"veth");
            info.nested(libc::IFLA_INFO_DATA, |data| {
                data.nested(VETH_INFO_PEER, |peer| {
                    peer.bytes.extend_from_slice(&link_body(0, 0, 0));
                    peer.attribute(libc::IFLA_IFNAME, &text(far));
                    peer.attribute(libc::IFLA_NET_NS_FD, &namespace.to_ne_bytes());
                });
            });
        });
        self.ask(message)
    }

    /// Gives an interface an address.
    pub fn add_address(&mut self, name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let family = u8::try_from(libc::AF_INET).unwrap_or(2);
        let mut body = vec![family, prefix, 0, 0];
        body.extend_from_slice(&index(name)?.to_ne_bytes());
        let mut message = Message::new(libc::RTM_NEWADDR, REQUEST_AND_ANSWER | CREATE_NEW, &body);
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        self.ask(message)
    }

    /// Adds a route: to `target` through a gateway, or straight to an interface.
    pub fn add_route(&mut self, target: (Ipv4Addr, u8), way: Way<'_>) -> io::Result<()> {
        let family = u8::try_from(libc::AF_INET).unwrap_or(2);
        let (table, scope, kind) = match way {
            Way::Local => (libc::RT_TABLE_LOCAL, libc::RT_SCOPE_HOST, libc::RTN_LOCAL),
            Way::Gateway(_) => (libc::RT_TABLE_MAIN, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST),
            Way::Interface(_) => (libc::RT_TABLE_MAIN, libc::RT_SCOPE_LINK, libc::RTN_UNICAST),
        };
        let mut body = vec![family, target.1, 0, 0, table, libc::RTPROT_STATIC, scope, kind];
        body.extend_from_slice(&[0; 4]);
        let mut message = Message::new(libc::RTM_NEWROUTE, REQUEST_AND_ANSWER | CREATE_NEW, &body);
        if target.1 > 0 {
            message.attribute(libc::RTA_DST, &target.0.octets());
        }
        match way {
            Way::Gateway(gateway) => {
                message.attribute(libc::RTA_GATEWAY, &gateway.octets());
            }
            Way::Interface(name) => {
                message.attribute(libc::RTA_OIF, &index(name)?.to_ne_bytes());
            }
            Way::Local => {
                message.attribute(libc::RTA_OIF, &index("lo")?.to_ne_bytes());
            }
        }
        self.ask(message)
    }
}

/// Where a route leads.
#[derive(Clone, Copy)]
pub enum Way<'a> {
    /// Every address of it is ours.
    Local,
    /// Through this neighbour.
    Gateway(Ipv4Addr),
    /// Out of this interface.
    Interface(&'a str),
}

/// The hardware address that belongs to an address.
fn hardware(address: Ipv4Addr) -> [u8; 6] {
    const ASSIGNED_LOCALLY: u8 = 0x02;
    let [a, b, c, d] = address.octets();
    [ASSIGNED_LOCALLY, 0, a, b, c, d]
}

fn index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}
