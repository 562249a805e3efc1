//! The shim: one small process for each Pod, the parent of everything in it.
//!
//! `orrery` starts it as a hidden verb of its own binary and then talks to it over a Unix socket in the Pod's directory.
//! The shim is the first process of the Pod's pid namespace, so that when it goes, by whatever way, the kernel ends
//! everything in the Pod; and it lives on when `orrery` stops or crashes. It has no threads and no async runtime: it
//! forks, and a process of few pages is what 200 Pods can afford.
//!
//! ```text
//! orrery ──unix socket──▶ shim (pid 1 of the Pod: user, net, ipc, uts, mount, pid namespaces)
//!                          ├─ keeper (pid 1 of a container: its own mount and pid namespace) ── the command
//!                          └─ keeper … one for each container
//! ```

mod attach;
mod confine;
mod container;
mod holder;
mod host;
mod identity;
mod log;
mod netlink;
mod root;
mod sandbox;
mod serve;
#[expect(unsafe_code, reason = "the system calls that have no safe wrapper, and nothing else")]
pub(crate) mod sys;
pub(crate) mod wire;

use std::io::Write as _;
use std::path::Path;

/// Runs the shim for the Pod whose directory is given, and ends this process.
///
/// The first line on standard output tells the caller whether the Pod's namespaces are there.
pub fn main(directory: &Path) -> std::process::ExitCode {
    match start(directory) {
        // The parent of the Pod's first process: its work is done.
        Ok(sandbox::Side::Outside) => std::process::ExitCode::SUCCESS,
        Ok(sandbox::Side::Inside(shim)) => {
            serve::run(*shim);
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            let report = wire::Report::Refused { step: error.step.to_owned(), message: error.to_string() };
            let line = serde_json::to_string(&report).unwrap_or_default();
            let _ = writeln!(std::io::stdout(), "{line}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// A Pod's directory makes a Pod; a directory with a network in it makes the Pod network's holder.
fn start(directory: &Path) -> Result<sandbox::Side, Error> {
    let Ok(text) = std::fs::read(directory.join("network.json")) else { return sandbox::enter(directory) };
    let spec = serde_json::from_slice(&text).map_err(std::io::Error::from).during("parse network.json")?;
    holder::main(directory, &spec)?;
    Ok(sandbox::Side::Outside)
}

/// A step of the set-up that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub(crate) struct Error {
    /// What we were doing.
    step: &'static str,
    source: std::io::Error,
}

/// Names the step that failed.
trait During<T> {
    fn during(self, step: &'static str) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> During<T> for Result<T, E> {
    fn during(self, step: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error { step, source: source.into() })
    }
}
