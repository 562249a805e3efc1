//! Where the plane keeps its things.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The folder asked for, or `orrery` under the XDG data home.
pub fn resolve(asked: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let path = match asked {
        Some(path) => path,
        None => default().context("there is no home folder to keep data in; choose one with --data-dir DIR")?,
    };
    std::path::absolute(&path).with_context(|| format!("cannot use {} as data folder", path.display()))
}

fn default() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
    Some(base.join("orrery"))
}

/// Makes the folder, closed to others.
pub fn prepare(path: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)))
        .with_context(|| format!("cannot use {} as data folder", path.display()))
}

/// The path as a person would type it.
pub fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_path_buf)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
