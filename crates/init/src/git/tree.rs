//! Files of a repository: permissions, and copying it over a workspace.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::Error;
use super::settings::Settings;

/// Lets whatever user the agent runs as read and write the tree.
pub(super) fn make_writable(path: &Path) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let open = if metadata.is_dir() { 0o777 } else { 0o666 };
    let mode = metadata.permissions().mode() | open;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("set the mode of", path))?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(failed("list", path))? {
            make_writable(&entry.map_err(failed("list", path))?.path())?;
        }
    }
    Ok(())
}

/// Copies the repository over the workspace. A workspace that is a repository already was filled by an earlier start
/// and holds the agent's work: it stays as it is.
pub(super) fn merge_into_workspace(settings: &Settings, workspace: &Path) -> Result<(), Error> {
    if workspace.join(".git").exists() {
        tracing::info!(path = %workspace.display(), "the workspace holds a repository already and is kept");
        return Ok(());
    }
    copy(&settings.wanted_directory(), workspace)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(from).map_err(failed("look at", from))?;
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(failed("read", from))?;
        remove_file(to)?;
        return symlink(target, to).map_err(failed("link", to));
    }
    if !metadata.is_dir() {
        remove_file(to)?;
        return fs::copy(from, to).map(|_| ()).map_err(failed("copy to", to));
    }
    fs::create_dir_all(to).map_err(failed("create", to))?;
    for entry in fs::read_dir(from).map_err(failed("list", from))? {
        let entry = entry.map_err(failed("list", from))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("replace", path)(error)),
        _ => Ok(()),
    }
}

pub(super) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path: PathBuf = path.to_owned();
    move |source| Error::Io { doing, path, source }
}
