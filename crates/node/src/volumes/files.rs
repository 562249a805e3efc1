//! Writes a volume's files so that a reader sees either all of the old or all of the new ones.
//!
//! As a kubelet does it: files are in a directory of their own, `..data` is a link to it, and each name is a link
//! through `..data`. An update writes a new directory and turns the one link.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::Payload;
use crate::driver::Identity;
use crate::process::give;

/// Makes `directory` hold exactly `files`. Does nothing when it does already.
pub fn write(directory: &Path, files: &Payload, identity: &Identity, group: Option<u32>) -> io::Result<()> {
    if is_current(directory, files) {
        return Ok(());
    }
    let now = jiff::Timestamp::now();
    let version = format!("..{}", now.strftime("%Y_%m_%d_%H_%M_%S.%9f"));
    let target = directory.join(&version);
    fs::create_dir(&target)?;
    open_to_all(&target)?;
    give(&target, identity, group)?;
    for (path, (bytes, mode)) in files {
        let file_path = target.join(path);
        if let Some(parent) = Path::new(path).parent() {
            let mut so_far = target.clone();
            for part in parent.components() {
                so_far.push(part);
                if !so_far.is_dir() {
                    fs::create_dir(&so_far)?;
                    open_to_all(&so_far)?;
                    give(&so_far, identity, group)?;
                }
            }
        }
        let mut file = File::create(&file_path)?;
        file.write_all(bytes)?;
        let shared = if group.is_some() { 0o040 } else { 0 };
        give(&file_path, identity, group)?;
        file.set_permissions(Permissions::from_mode(mode | shared))?;
    }
    let old = fs::read_link(directory.join("..data")).ok();
    let turning = directory.join("..data_tmp");
    let _ = fs::remove_file(&turning);
    symlink(&version, &turning)?;
    fs::rename(&turning, directory.join("..data"))?;
    link_names(directory, files)?;
    if let Some(old) = old {
        let _ = fs::remove_dir_all(directory.join(old));
    }
    Ok(())
}

fn open_to_all(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn link_names(directory: &Path, files: &Payload) -> io::Result<()> {
    let wanted: std::collections::BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(name.as_ref()) {
            fs::remove_file(entry.path())?;
        }
    }
    for name in wanted {
        let link = directory.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(format!("..data/{name}"), link)?;
        }
    }
    Ok(())
}

fn is_current(directory: &Path, files: &Payload) -> bool {
    let data = directory.join("..data");
    if !data.is_dir() {
        return false;
    }
    let same =
        |(path, (bytes, _)): (&String, &(Vec<u8>, u32))| fs::read(data.join(path)).is_ok_and(|now| now == *bytes);
    files.iter().all(same) && count(&data) == files.len()
}

fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

/// Removes a tree, also where a directory in it is closed to its own owner, as the kernel's overlays leave them.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Opens directories to their owner. What is not ours stays as it is, and is said when it cannot be removed.
fn open_up(path: &Path) {
    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
