//! Starts shims.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Mutex;

use crate::driver::Error;
use crate::shim::nursery::{Birth, TITLE};
use crate::shim::wire::{Report, send};

/// What starts shims: a process that forks them, started when the first one is wanted. Clones share it.
#[derive(Clone, Debug)]
pub struct Shims {
    program: PathBuf,
    arguments: Vec<String>,
    nursery: Arc<Mutex<Option<OwnedFd>>>,
}

impl Shims {
    /// From a program, and the words that make it what shims come from.
    pub fn new(program: PathBuf, arguments: Vec<String>) -> Self {
        Self { program, arguments, nursery: Arc::default() }
    }

    /// From this very program, under its hidden verb.
    pub fn own() -> Self {
        Self::new(PathBuf::from("/proc/self/exe"), vec!["shim".to_owned()])
    }

    /// Starts one for a directory and waits until what it makes is there.
    pub(crate) async fn start(&self, directory: &Path) -> Result<(), Error> {
        let (report, writer) = std::io::pipe().map_err(Error::io("make a pipe for the shim"))?;
        self.ask(&Birth { directory: directory.to_owned() }, &writer.into())
            .await
            .map_err(Error::io("start the shim"))?;
        let reader = Receiver::from_owned_fd(report.into()).map_err(Error::io("read the shim's report"));
        let mut line = Vec::new();
        reader?.read_to_end(&mut line).await.map_err(Error::io("read the shim's report"))?;
        match serde_json::from_slice(&line) {
            Ok(Report::Ready { .. }) => Ok(()),
            Ok(Report::Refused { step, message }) => Err(Error::Isolation { step, message }),
            Err(_) => Err(Error::Gone),
        }
    }

    /// Asks the nursery that is there; when it is not, or was killed, there is a new one.
    async fn ask(&self, birth: &Birth, report: &OwnedFd) -> io::Result<()> {
        let mut nursery = self.nursery.lock().await;
        if let Some(asking) = &*nursery
            && send(asking, birth, &[report.as_raw_fd()]).is_ok()
        {
            return Ok(());
        }
        let asking = self.open()?;
        send(&asking, birth, &[report.as_raw_fd()])?;
        *nursery = Some(asking);
        Ok(())
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        let mut child = tokio::process::Command::new(&self.program)
            .args(&self.arguments)
            // Room for what its children will be known by.
            .arg(format!("{:TITLE$}", "nursery"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        // It ends when our side of the socket closes.
        tokio::spawn(async move { child.wait().await });
        Ok(ours)
    }
}
