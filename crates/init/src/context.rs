//! `context-init`: copies files from mounted `ConfigMaps` into the writable workspace.
//!
//! A file with a mode of its own keeps exactly that mode; everything else becomes readable by the agent, whatever
//! user it runs as. A source that is not there is an error unless the mapping says that it is optional: a task
//! without its instructions must not run.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::env::{self, Env};

const READABLE_FILE: u32 = 0o644;
/// Directories of ours are open, because the agent may run as another user and must be able to work in them.
const OPEN_DIRECTORY: u32 = 0o777;

/// Why the files could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is missing or unreadable.
    #[error(transparent)]
    Setting(#[from] env::Error),
    /// Nothing is mounted where the content should come from.
    #[error("{target} cannot be written: its source {source_path} is not there", target = target.display(), source_path = source_path.display())]
    SourceMissing {
        /// Where the content should go.
        target: PathBuf,
        /// Where it should come from.
        source_path: PathBuf,
    },
    /// A target that is no absolute path.
    #[error("{0:?} is not an absolute path")]
    RelativeTarget(PathBuf),
    /// The file system refused.
    #[error("cannot {doing} {path}", path = path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileMapping {
    key: String,
    target_path: PathBuf,
    file_mode: Option<u32>,
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DirectoryMapping {
    source_path: PathBuf,
    target_path: PathBuf,
    file_mode: Option<u32>,
    #[serde(default)]
    optional: bool,
}

/// Does all mappings of `FILE_MAPPINGS` and `DIR_MAPPINGS`, in order.
pub fn run(env: &Env) -> Result<(), Error> {
    let source_root = PathBuf::from(env.get_or("CONFIGMAP_PATH", "/configmap-files"));
    for mapping in env.json::<Vec<FileMapping>>("FILE_MAPPINGS")? {
        let source = source_root.join(&mapping.key);
        if ready(&source, &mapping.target_path, mapping.optional)? {
            copy_file(&source, &mapping.target_path, mapping.file_mode)?;
        }
    }
    for mapping in env.json::<Vec<DirectoryMapping>>("DIR_MAPPINGS")? {
        if ready(&mapping.source_path, &mapping.target_path, mapping.optional)? {
            copy_directory(&mapping.source_path, &mapping.target_path, mapping.file_mode)?;
        }
    }
    Ok(())
}

fn ready(source: &Path, target: &Path, optional: bool) -> Result<bool, Error> {
    if !target.is_absolute() {
        return Err(Error::RelativeTarget(target.to_owned()));
    }
    if source.exists() {
        return Ok(true);
    }
    if optional {
        tracing::info!(source = %source.display(), "optional context is not there");
        return Ok(false);
    }
    Err(Error::SourceMissing { target: target.to_owned(), source_path: source.to_owned() })
}

fn copy_file(source: &Path, target: &Path, mode: Option<u32>) -> Result<(), Error> {
    if let Some(parent) = target.parent() {
        create_directory(parent)?;
    }
    // A read-only file that an earlier start of this Pod left behind must not stop the copy.
    match fs::remove_file(target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("replace", target)(error)),
        _ => {}
    }
    fs::copy(source, target).map_err(failed("copy to", target))?;
    set_mode(target, mode.unwrap_or(READABLE_FILE))
}

/// Copies what a `ConfigMap` volume shows: regular names, through the links that make its updates atomic, without the
/// `..data` bookkeeping.
fn copy_directory(source: &Path, target: &Path, mode: Option<u32>) -> Result<(), Error> {
    create_directory(target)?;
    for entry in fs::read_dir(source).map_err(failed("list", source))? {
        let entry = entry.map_err(failed("list", source))?;
        if entry.file_name().to_string_lossy().starts_with("..") {
            continue;
        }
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        if from.is_dir() { copy_directory(&from, &to, mode)? } else { copy_file(&from, &to, mode)? }
    }
    Ok(())
}

/// Creates a directory and those above it that are missing, each enterable by the agent.
fn create_directory(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_directory(parent)?;
    }
    fs::create_dir(path).map_err(failed("create", path))?;
    set_mode(path, OPEN_DIRECTORY)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("set the mode of", path))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { doing, path, source }
}
