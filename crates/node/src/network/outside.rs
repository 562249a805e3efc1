//! The way out: connections of Pods to the outside become connections of this machine.

mod reset;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ipstack::{IpStack, IpStackConfig, IpStackStream, IpStackTcpStream, IpStackUdpStream};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};

use super::{HOST_ADDRESS, Network};
use crate::shim::wire::Request;
use reset::Recent;

/// The tun device's own.
const PACKET: u16 = 1500;
/// Addresses outside of link-local under which clouds tell a machine its secrets (Azure, Alibaba).
const OF_CLOUDS: [Ipv4Addr; 2] = [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200)];
const PATIENCE: Duration = Duration::from_secs(20);

/// Carries connections.
pub(super) async fn serve(network: Arc<Network>) -> io::Result<()> {
    let device = network.descriptor(&Request::WayOut).await?;
    let device = Tun { device: crate::shim::sys::register(device)?, recent: Recent::default() };
    let mut config = IpStackConfig::default();
    config.mtu(PACKET).map_err(io::Error::other)?;
    let mut stack = IpStack::new(config, device);
    loop {
        match stack.accept().await.map_err(io::Error::other)? {
            IpStackStream::Tcp(stream) => {
                tokio::spawn(carry_stream(stream));
            }
            IpStackStream::Udp(stream) => {
                tokio::spawn(carry_datagrams(stream));
            }
            // Nothing else leaves (ping, for one).
            IpStackStream::UnknownTransport(_) | IpStackStream::UnknownNetwork(_) => {}
        }
    }
}

/// Where a Pod's connection really goes; none when it may not.
fn destination(asked: SocketAddr) -> Option<SocketAddr> {
    let IpAddr::V4(address) = asked.ip() else { return None };
    if address == HOST_ADDRESS {
        return Some(SocketAddr::from((Ipv4Addr::LOCALHOST, asked.port())));
    }
    // Where clouds hand out this machine's credentials: link-local, and what two of them chose. The rest has no outside.
    let kept = address.is_link_local()
        || OF_CLOUDS.contains(&address)
        || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_broadcast()
        || address.octets()[0] == 0;
    (!kept).then_some(asked)
}

async fn carry_stream(mut inbound: IpStackTcpStream) {
    let Some(target) = destination(inbound.peer_addr()) else { return };
    let Ok(mut outbound) = connect(target).await else { return };
    let _ = outbound.set_nodelay(true);
    let _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
    let _ = inbound.shutdown().await;
}

async fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let first = tokio::time::timeout(PATIENCE, TcpStream::connect(target)).await?;
    if first.is_err() && target.ip() == Ipv4Addr::LOCALHOST {
        return TcpStream::connect((Ipv6Addr::LOCALHOST, target.port())).await;
    }
    first
}

async fn carry_datagrams(mut inbound: IpStackUdpStream) {
    let Some(target) = destination(inbound.peer_addr()) else { return };
    let Ok(outbound) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await else { return };
    if outbound.connect(target).await.is_err() {
        return;
    }
    let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = inbound.read(&mut there) => match read {
                Ok(length @ 1..) => {
                    if outbound.send(&there[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            received = outbound.recv(&mut back) => match received {
                Ok(length) => {
                    if inbound.write_all(&back[..length]).await.is_err() {
                        return;
                    }
                }
                Err(_) => return,
            },
        }
    }
}

/// A tun device as a stream of packets: one read or write is one packet.
struct Tun {
    device: AsyncFd<OwnedFd>,
    recent: Recent,
}

impl AsyncRead for Tun {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let this = &mut *self;
            let mut guard = ready!(this.device.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            match guard.try_io(|device| Ok(nix::unistd::read(device.get_ref(), room)?)) {
                Ok(Ok(length)) => {
                    this.recent.remember(&room[..length]);
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Tun {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<usize>> {
        let mended = self.recent.mend(packet);
        let sent = mended.as_deref().unwrap_or(packet);
        loop {
            let mut guard = ready!(self.device.poll_write_ready(context))?;
            match guard.try_io(|device| Ok(nix::unistd::write(device.get_ref(), sent)?)) {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_the_machine_and_its_loopback_are_not_reached() {
        let to = |address: [u8; 4]| destination(SocketAddr::from((address, 80)));
        for kept in [
            [169, 254, 169, 254],
            [168, 63, 129, 16],
            [100, 100, 100, 200],
            [127, 0, 0, 1],
            [0, 0, 0, 0],
            [224, 0, 0, 1],
        ] {
            assert_eq!(to(kept), None, "{kept:?}");
        }
        assert_eq!(to([93, 184, 216, 34]), Some(SocketAddr::from(([93, 184, 216, 34], 80))));
        // By the name made for it, loopback is.
        assert_eq!(to([192, 0, 2, 1]), Some(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(destination("[fd00:ec2::254]:80".parse().expect("an address")), None);
    }
}
