//! A state in a file. Whoever works on it holds an advisory lock on the file beside it, which the system releases when the
//! process ends, however it ends; what the file says is for people, and for `unlock`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::store::{overtaken, unlocked};
use super::{Keeper, Lock, State, Store};
use crate::failure::{Category, Failure};

/// A state in a file.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    lock: Lock,
    /// The serial that the next state builds on.
    serial: u64,
    /// Locked as long as it is open.
    _file: File,
}

impl FileStore {
    /// The state at `path`; neither it nor its folder need exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), held: None }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Nobody else looks and writes while it is held. Held for moments only.
    fn guard(&self) -> Result<File, Failure> {
        let folder = self.folder();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| broken(folder, &error))?;
        let guard = File::open(folder).map_err(|error| broken(folder, &error))?;
        guard.lock().map_err(|error| broken(folder, &error))?;
        Ok(guard)
    }

    fn load(&self) -> Result<State, Failure> {
        match fs::read_to_string(&self.path) {
            Ok(text) => State::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(State::default()),
            Err(error) => Err(broken(&self.path, &error)),
        }
    }

    /// Who has the lock by the words of the file; a dead holder's words may still be there.
    fn holder(&self) -> Option<Lock> {
        serde_json::from_str(&fs::read_to_string(self.beside(".lock")).ok()?).ok()
    }

    /// A crash leaves the old state or the new one, never half of one.
    fn replace(&self, guard: &File, text: &str) -> std::io::Result<()> {
        let fresh = self.beside(".new");
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        guard.sync_all()
    }
}

fn broken(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Category::Resource, format!("cannot use {}: {error}", path.display()))
}

#[async_trait]
impl Keeper for FileStore {
    async fn keep(&mut self, state: &State) -> Result<(), Failure> {
        let guard = self.guard()?;
        let Some(held) = &self.held else { return Err(unlocked()) };
        let holder = self.holder();
        if holder.as_ref().is_none_or(|holder| holder.id != held.lock.id) {
            return Err(held.lock.lost(holder.as_ref()));
        }
        let found = self.load()?.serial;
        if found != held.serial {
            return Err(overtaken(held.serial, found));
        }
        self.replace(&guard, &state.to_text()).map_err(|error| broken(&self.path, &error))?;
        self.held.as_mut().expect("held, as seen above").serial = state.serial;
        Ok(())
    }
}

#[async_trait]
impl Store for FileStore {
    async fn read(&self) -> Result<(State, Option<Lock>), Failure> {
        let state = self.load()?;
        let holder = match File::open(self.beside(".lock")) {
            Ok(file) if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) => self.holder(),
            _ => None,
        };
        Ok((state, holder))
    }

    async fn lock(&mut self, lock: &Lock) -> Result<State, Failure> {
        let _guard = self.guard()?;
        let path = self.beside(".lock");
        let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let mut file = opened.map_err(|error| broken(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(|error| broken(&path, &error))?;
                let holder: Option<Lock> = serde_json::from_str(&text).ok();
                return Err(holder.map_or_else(
                    || Failure::new(Category::Conflict, "the deployment is locked"),
                    |holder| holder.held(),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(broken(&path, &error)),
        }
        let state = self.load()?;
        let text = serde_json::to_string(lock).expect("a lock is JSON");
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(|error| broken(&path, &error))?;
        self.held = Some(Held { lock: lock.clone(), serial: state.serial, _file: file });
        Ok(state)
    }

    async fn unlock(&mut self) -> Result<(), Failure> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let _guard = self.guard()?;
        let path = self.beside(".lock");
        if self.holder().is_some_and(|holder| holder.id == held.lock.id) {
            fs::remove_file(&path).map_err(|error| broken(&path, &error))?;
        }
        Ok(())
    }

    async fn force_unlock(&self, id: &str) -> Result<(), Failure> {
        let _guard = self.guard()?;
        Lock::breakable(self.holder().as_ref(), id)?;
        // The holder keeps its lock on a file that has no name any more; what it wants to write is refused.
        let path = self.beside(".lock");
        fs::remove_file(&path).map_err(|error| broken(&path, &error))
    }
}
