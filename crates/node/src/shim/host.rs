//! A Pod without isolation, for machines that allow none and people who ask for it: its commands are ordinary processes
//! of this machine, and a volume is a link at the place where the manifest wants it, if nothing else is there.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{Backlog, listen};
use nix::unistd::Pid;

use super::sandbox::{Shim, Side, bind_in, set_stage, stage};
use super::wire::{ContainerSpec, Mount, Root, SandboxSpec};
use super::{During as _, Error, sys};

/// Makes the Pod's stage, a directory of links, and leaves a process there. Returns on both sides of the fork.
pub fn enter(directory: &Path, spec: SandboxSpec) -> Result<Side, Error> {
    let listener = bind_in(directory).during("make the Pod's socket")?;
    let place = directory.join("stage");
    make_stage(&place, directory, &spec).during("make the Pod's stage")?;
    set_stage(&place);
    if sys::fork_into(CloneFlags::empty()).during("leave a process behind")?.is_some() {
        return Ok(Side::Outside);
    }
    listen(&listener, Backlog::MAXCONN).during("listen on the Pod's socket")?;
    nix::unistd::setsid().during("start a session")?;
    // What a container leaves behind becomes ours, so that it can be ended.
    nix::sys::prctl::set_child_subreaper(true).during("take over orphans")?;
    Ok(Side::Inside(Box::new(Shim { spec, listener })))
}

fn make_stage(place: &Path, directory: &Path, spec: &SandboxSpec) -> io::Result<()> {
    let _ = fs::remove_dir_all(place);
    fs::create_dir_all(place.join("volumes"))?;
    symlink(directory, place.join("pod"))?;
    for (name, source) in &spec.volumes {
        symlink(source, place.join("volumes").join(name))?;
    }
    for name in spec.memory_volumes.keys() {
        fs::create_dir(place.join("volumes").join(name))?;
    }
    Ok(())
}

/// Shows a container's volumes where it wants them.
pub fn show(spec: &ContainerSpec) -> Result<(), Error> {
    if matches!(spec.root, Root::Image(_)) {
        let words = "an imported image needs isolation, and this plane runs with --node=host; use the image \"host\"";
        return Err(io::Error::other(words)).during("show the image");
    }
    for mount in &spec.mounts {
        show_volume(mount).during("show a volume")?;
    }
    fs::create_dir_all(&spec.working_directory).during("make the working directory")
}

fn show_volume(mount: &Mount) -> io::Result<()> {
    let (source, target) = (source(mount), Path::new(&mount.path));
    if fs::symlink_metadata(&source).is_err() {
        fs::create_dir_all(&source)?;
    }
    if fs::read_link(target).is_ok_and(|shown| shown == source) {
        return Ok(());
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(&source, target).map_err(|error| {
        let words = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                "there is something else; without isolation a volume can only be shown where nothing is".to_owned()
            }
            _ => error.to_string(),
        };
        io::Error::other(format!("{}: {words}", mount.path))
    })
}

/// Takes the links away again.
pub fn hide(spec: &ContainerSpec) {
    for mount in &spec.mounts {
        if fs::read_link(&mount.path).is_ok_and(|shown| shown == source(mount)) {
            let _ = fs::remove_file(&mount.path);
        }
    }
}

fn source(mount: &Mount) -> PathBuf {
    let volume = Path::new(stage()).join("volumes").join(&mount.volume);
    if mount.sub_path.is_empty() { volume } else { volume.join(&mount.sub_path) }
}

/// Ends a process and everything below it.
pub fn end_tree(process: Pid) {
    // Stopped first: what stands still starts nothing new.
    let _ = kill(process, Signal::SIGSTOP);
    for child in children(process) {
        end_tree(child);
    }
    let _ = kill(process, Signal::SIGKILL);
}

/// Ends everything below this process.
pub fn end_children() {
    for child in children(nix::unistd::getpid()) {
        end_tree(child);
    }
}

fn children(process: Pid) -> Vec<Pid> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw).collect()
}
