//! Where shims come from: a process that does nothing but fork.
//!
//! Starting a program of our size costs more than making a Pod's namespaces, in time (the loader's work) and in memory
//! (the pages it writes to, once for each process). The nursery has that behind it: what it forks is there at once and
//! shares those pages. It lives as long as the `orrery` that started it, and no shim needs it afterwards.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::sched::CloneFlags;
use serde::{Deserialize, Serialize};

use super::wire::{Report, receive};
use super::{During as _, Error, holder, sandbox, serve, sys};

/// How many bytes of its arguments a process is known by.
pub const TITLE: usize = 400;

/// A shim that is wanted. The pipe that it reports to comes along.
#[derive(Debug, Serialize, Deserialize)]
pub struct Birth {
    /// The directory of its Pod, or of the Pod network.
    pub directory: PathBuf,
}

/// Forks whenever it is asked to on its standard input, until nobody can ask any more.
pub fn run() {
    // Nobody waits for what we fork; the kernel takes it away when it ends.
    if sys::forget_children(true).is_err() {
        return;
    }
    let Ok(asked) = std::io::stdin().as_fd().try_clone_to_owned() else { return };
    while let Ok(Some((Birth { directory }, descriptors))) = receive::<Birth>(&asked) {
        let Some(report) = descriptors.into_iter().next() else { continue };
        match sys::fork_into(CloneFlags::empty()) {
            Ok(Some(_)) => {}
            Ok(None) => {
                drop(asked);
                become_shim(&directory, report);
                sys::exit_now(0);
            }
            Err(error) => tell(&report, "fork a shim", &error.to_string()),
        }
    }
}

fn tell(report: impl AsFd, step: &str, message: &str) {
    let refused = Report::Refused { step: step.to_owned(), message: message.to_owned() };
    let _ = nix::unistd::write(report, &serde_json::to_vec(&refused).unwrap_or_default());
}

/// What the caller asked for, in a process of its own. Returns when that process has nothing left to do.
fn become_shim(directory: &Path, report: OwnedFd) {
    let side = prepare(directory, report).during("leave the nursery").and_then(|()| enter(directory));
    match side {
        // The parent of the Pod's first process: its work is done.
        Ok(sandbox::Side::Outside) => {}
        Ok(sandbox::Side::Inside(shim)) => serve::run(*shim),
        Err(error) => tell(std::io::stdout(), error.step, &error.to_string()),
    }
}

/// The report goes to standard output, and is open nowhere else: its end tells the caller that there is no more to come.
fn prepare(directory: &Path, report: OwnedFd) -> std::io::Result<()> {
    sys::forget_children(false)?;
    sys::become_stream(File::open("/dev/null")?.as_fd(), 0)?;
    sys::become_stream(report.as_fd(), 1)?;
    drop(report);
    set_title(directory)
}

/// A Pod's directory makes a Pod; a directory with a network in it makes the Pod network's holder.
fn enter(directory: &Path) -> Result<sandbox::Side, Error> {
    let Ok(text) = fs::read(directory.join("network.json")) else { return sandbox::enter(directory) };
    let spec = serde_json::from_slice(&text).map_err(std::io::Error::from).during("parse network.json")?;
    holder::main(directory, &spec)?;
    Ok(sandbox::Side::Outside)
}

/// Lets a list of processes show whose shim this is, in the place of the nursery's own arguments.
fn set_title(directory: &Path) -> std::io::Result<()> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let unknown = || std::io::Error::other("where are this process's arguments?");
    // The name in parentheses may hold anything; where the arguments begin and end is the 46th and 47th word after it.
    let (_, rest) = stat.rsplit_once(") ").ok_or_else(unknown)?;
    let mut places = rest.split(' ').skip(45).map(|word| word.parse::<u64>().ok());
    let (Some(Some(first)), Some(Some(end))) = (places.next(), places.next()) else { return Err(unknown()) };
    let room = usize::try_from(end.saturating_sub(first)).unwrap_or(0);
    let mut title = b"orrery-shim\0".to_vec();
    title.extend_from_slice(directory.as_os_str().as_encoded_bytes());
    title.truncate(room.saturating_sub(1));
    title.resize(room, 0);
    File::options().write(true).open("/proc/self/mem")?.write_all_at(&title, first)?;
    Ok(nix::sys::prctl::set_name(c"orrery-shim")?)
}
