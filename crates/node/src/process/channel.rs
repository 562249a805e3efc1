//! One connection to a shim.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::shim::wire;

pub struct Channel(AsyncFd<OwnedFd>);

impl Channel {
    /// Connects to the shim of the Pod that has this directory.
    pub async fn connect(directory: &Path) -> io::Result<Self> {
        let anchor = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(directory)?;
        // A socket's path is at most 108 bytes long; a data directory's may be longer.
        let path = format!("/proc/self/fd/{}/shim.sock", anchor.as_raw_fd());
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        let address = UnixAddr::new(path.as_str())?;
        loop {
            match connect(socket.as_raw_fd(), &address) {
                Ok(()) => break,
                // Its queue of callers is full: it is busy, not gone.
                Err(Errno::EAGAIN) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(crate::shim::sys::register(socket)?))
    }

    pub async fn send<T: Serialize + Sync>(&self, message: &T, descriptors: &[RawFd]) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, |socket| wire::send(socket, message, descriptors)).await
    }

    /// The next message; none when the shim is gone.
    pub async fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        match self.0.async_io(Interest::READABLE, |socket| wire::receive(socket)).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            other => other,
        }
    }
}
