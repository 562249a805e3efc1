//! One process at a time: an advisory lock beside the file, which says who has it.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The lock. It ends with the process, however the process ends.
#[derive(Debug)]
pub(crate) struct Holder {
    file: File,
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is just being started has a copy of the descriptor until it
        // becomes another program, and would keep the lock that long.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "failed to give the store's lock back");
        }
    }
}

impl Holder {
    /// Takes the lock of the store at `path`, or says who has it.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let lock = beside(path, ".lock");
        let io = |source| OpenError::Io { path: lock.clone(), source };
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&lock).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Held { path: path.to_owned(), holder: read(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        // The lock is what counts; the text is for people. A full disk must not keep a store from opening.
        if let Err(error) = sign(&mut file) {
            tracing::warn!(%error, path = %lock.display(), "failed to write down who holds the store");
        }
        Ok(Self { file })
    }
}

/// The path of a companion file.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn sign(file: &mut File) -> std::io::Result<()> {
    let now = jiff::Timestamp::now().strftime("%FT%TZ");
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "process {} since {now}", std::process::id())
}

fn read(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(200).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}
