//! The shim: one small process for each Pod, the parent of everything in it.
//!
//! `orrery` has it forked by a process of its own binary under a hidden verb (the nursery) and then talks to it over a
//! Unix socket in the Pod's directory. The shim is the first process of the Pod's pid namespace, so that when it goes, by whatever way, the kernel ends
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
pub(crate) mod nursery;
mod root;
mod sandbox;
mod serve;
#[expect(unsafe_code, reason = "the system calls that have no safe wrapper, and nothing else")]
pub(crate) mod sys;
pub(crate) mod wire;

/// Runs where shims come from, until its caller is gone. The process must have one thread.
pub fn main() -> std::process::ExitCode {
    nursery::run();
    std::process::ExitCode::SUCCESS
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
