//! Writing files with exact permissions, whatever the umask.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;

/// Directories of ours are open, because the agent may run under another user id.
const DIRECTORY: u32 = 0o777;
pub const FILE: u32 = 0o644;

/// Makes the directory above `path`; those that were there stay as they are.
pub fn make_parents(path: &Path) -> anyhow::Result<()> {
    path.parent().map_or(Ok(()), make_directory)
}

/// Makes a directory and those above it.
pub fn make_directory(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    make_parents(path)?;
    fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))?;
    set_mode(path, DIRECTORY)
}

/// Writes a file with exactly this mode.
pub fn write(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    make_parents(path)?;
    // A file of an earlier start may be read-only by now.
    if path.symlink_metadata().is_ok_and(|known| !known.is_dir()) {
        fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    set_mode(path, mode)
}

/// Copies a directory as Kubernetes mounts it: what begins with `..` is its own bookkeeping, links are followed.
pub fn copy_directory(source: &Path, target: &Path, mode: u32) -> anyhow::Result<()> {
    make_directory(target)?;
    let entries = fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("..") {
            continue;
        }
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        if fs::metadata(&from)?.is_dir() {
            copy_directory(&from, &to, mode)?;
        } else {
            let content = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            write(&to, &content, mode)?;
        }
    }
    Ok(())
}

/// Lets everyone read and write a tree, and enter its directories.
pub fn open_to_all(path: &Path) -> anyhow::Result<()> {
    let known = path.symlink_metadata()?;
    if known.is_symlink() {
        return Ok(());
    }
    let mode = known.mode() & 0o7777;
    if known.is_dir() {
        set_mode(path, mode | 0o777)?;
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
        return Ok(());
    }
    let enter = if mode & 0o111 == 0 { 0 } else { 0o111 };
    set_mode(path, mode | 0o666 | enter)
}

fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}
