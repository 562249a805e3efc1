//! What a Task brings to an agent that serves in another Pod.
//!
//! The Task's Pod sends its files in one request ([`send`]) to the server's Pod ([`serve`]), which puts them on its shelf
//! ([`Shelf`]): relative paths into a directory of the Task's own, absolute ones as declared. The request stays open as
//! long as the Task works. Whatever ends it, a finished agent, a stop, a lost Pod or a cut network, takes the files away.

mod archive;
mod send;
mod serve;
mod shelf;

pub use archive::{Item, pack};
pub use send::{Error as SendError, Lease, Settings, send};
pub use serve::{router, run};
pub use shelf::{Refusal, Shelf};

use std::path::{Path, PathBuf};

/// The directories of all Tasks.
pub fn root(workspace: &Path) -> PathBuf {
    workspace.join(api::kubeopencode::names::TASK_DIRECTORIES)
}
