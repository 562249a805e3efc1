//! The Pod network: each Pod has an address, Service names resolve and balance, and the outside world is reached.
//!
//! The network is a namespace that a small process holds (see `shim/holder.rs`). What happens in it happens here, with
//! sockets that were made there:
//!
//! * Pod to Pod: the kernel's bridge, nobody in between;
//! * Pod to Service: a listener on the Service's address ([`services`]);
//! * names: a DNS server on a Service address ([`names`]);
//! * Pod to the outside: packets come out of a tun device, a TCP stack in this process ends them, and an ordinary
//!   connection of this machine goes on ([`outside`]).
//!
//! Root or not, it is the same.

mod names;
mod outside;
mod places;
mod services;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::driver::{Error, Identity, Network as Place};
use crate::process::Shims;
use crate::process::channel::Channel;
use crate::shim::wire::{HolderSpec, Reply, Request};
use places::Places;
use services::Table;

/// The domain of Service names.
pub const DOMAIN: &str = "cluster.local";
/// A name for this machine's own loopback: where a local model server listens.
pub const HOST_NAME: &str = "host.orrery.internal";
/// What [`HOST_NAME`] resolves to: an address that is nobody's anywhere (RFC 5737).
const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const PREFIX: u8 = 16;
/// After so many seconds of silence the other side is asked whether it is there.
const SILENCE: u32 = 20;

/// The Pod network of this machine's plane.
pub struct Network {
    directory: PathBuf,
    services: (Ipv4Addr, u8),
    api: SocketAddr,
    places: Mutex<Places>,
    /// Addresses whose Pods are gone.
    gone: broadcast::Sender<Ipv4Addr>,
    table: Table,
}

impl Network {
    /// Finds the network that is there, or makes it. `services` is the range of Service addresses, `api` where the API
    /// listens on this machine.
    pub async fn open(
        data: &Path,
        shims: &Shims,
        identity: Identity,
        services: (Ipv4Addr, u8),
        api: SocketAddr,
    ) -> Result<Arc<Self>, Error> {
        let directory = data.join("network");
        tokio::fs::create_dir_all(&directory).await.map_err(Error::io("make the network's directory"))?;
        if Channel::connect(&directory).await.is_err() {
            let spec = HolderSpec { identity, gateway: GATEWAY, prefix: PREFIX, services };
            let text =
                serde_json::to_vec(&spec).map_err(std::io::Error::from).map_err(Error::io("write network.json"))?;
            let path = directory.join("network.json");
            tokio::fs::write(path, text).await.map_err(Error::io("write network.json"))?;
            shims.start(&directory).await?;
        }
        let places = Mutex::new(Places::on_disk(&data.join("pods")));
        let gone = broadcast::Sender::new(64);
        Ok(Arc::new(Self { directory, services, api, places, gone, table: Table::default() }))
    }

    /// Where the API is for Pods: the first Service address.
    pub(crate) fn api_service(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.services.0) + 1)
    }

    /// Where names are asked for.
    pub(crate) fn name_server(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.services.0) + 10)
    }

    /// The Pod's place: the one it has, or a free one. None when all are taken.
    pub(crate) fn place(&self, uid: &str) -> Option<Place> {
        let address = self.places.lock().take(uid)?;
        Some(Place { address, prefix: PREFIX, gateway: GATEWAY, holder: self.directory.clone() })
    }

    pub(crate) fn release(&self, uid: &str) {
        if let Some(address) = self.places.lock().release(uid) {
            // An error says that nobody listens.
            let _ = self.gone.send(address);
        }
    }

    /// Serves names, Services and the way out until it is dropped.
    pub(crate) async fn serve(self: Arc<Self>, client: kube::Client) {
        tokio::join!(
            retry("names", || names::serve(self.clone())),
            retry("the way out", || outside::serve(self.clone())),
            services::serve(self.clone(), client),
        );
    }

    /// Ends the network. Pods on it are cut off.
    pub async fn close(&self) -> Result<(), Error> {
        self.ask(&Request::Close { volumes: Vec::new() }).await.map(drop).map_err(Error::io("close the network"))
    }

    async fn ask(&self, request: &Request) -> std::io::Result<Vec<OwnedFd>> {
        let channel = Channel::connect(&self.directory).await?;
        channel.send(request, &[]).await?;
        match channel.receive::<Reply>().await? {
            Some((Reply::Done, descriptors)) => Ok(descriptors),
            Some((Reply::Failed { message }, _)) => Err(std::io::Error::other(message)),
            _ => Err(std::io::Error::other("the Pod network's holder is gone")),
        }
    }

    async fn descriptor(&self, request: &Request) -> std::io::Result<OwnedFd> {
        let descriptors = self.ask(request).await?;
        descriptors.into_iter().next().ok_or_else(|| std::io::Error::other("no socket came along"))
    }

    async fn tcp_socket(&self) -> std::io::Result<tokio::net::TcpSocket> {
        let socket = self.descriptor(&Request::Socket { stream: true }).await?;
        notice_silence(&socket)?;
        Ok(tokio::net::TcpSocket::from_std_stream(std::net::TcpStream::from(socket)))
    }

    async fn udp_socket(&self, address: Ipv4Addr, port: u16) -> std::io::Result<tokio::net::UdpSocket> {
        use nix::sys::socket::{SockaddrIn, bind};
        use std::os::fd::AsRawFd as _;
        let socket = self.descriptor(&Request::Socket { stream: false }).await?;
        bind(socket.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(address, port)))?;
        tokio::net::UdpSocket::from_std(std::net::UdpSocket::from(socket))
    }
}

/// Ends the network of a plane that does not run.
pub(crate) async fn end(data: &Path) {
    if let Ok(channel) = Channel::connect(&data.join("network")).await {
        let _ = channel.send(&Request::Close { volumes: Vec::new() }, &[]).await;
        let _ = channel.receive::<Reply>().await;
    }
}

async fn retry<F: Future<Output = std::io::Result<()>>>(what: &str, mut serve: impl FnMut() -> F) {
    loop {
        if let Err(error) = serve().await {
            tracing::warn!(%error, "{what} of the Pod network failed; it is started again");
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// A Pod's network may be gone before its last packet has left. A connection on which nothing is said asks now and then
/// whether the other side is there; what a listener accepts has this from the listener. No limit for what is not
/// acknowledged: that would also end a connection whose other side only reads slowly.
fn notice_silence(socket: &OwnedFd) -> std::io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};
    setsockopt(socket, sockopt::TcpKeepIdle, &SILENCE)?;
    setsockopt(socket, sockopt::TcpKeepInterval, &5)?;
    setsockopt(socket, sockopt::TcpKeepCount, &3)?;
    Ok(setsockopt(socket, sockopt::KeepAlive, &true)?)
}
