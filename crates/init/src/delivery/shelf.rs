//! The files that Tasks have brought, and whose they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::archive::{self, Unpacked};

/// Why something was not put on the shelf.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A live Task holds the path.
    #[error("{path} is held by Task {by} with other content: wait for it to end, or use another mountPath", path = path.display())]
    Held {
        /// The path.
        path: PathBuf,
        /// Who holds it.
        by: String,
    },
    /// The path is there, and no Task brought it.
    #[error("{path} exists on the Agent's server already, and no Task brought it: use another mountPath", path = path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// A path that nobody may bring.
    #[error("{path} cannot be brought: use a relative mountPath", path = path.display())]
    Forbidden {
        /// The path.
        path: PathBuf,
    },
    /// The file system, or an archive that cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Refusal {
    /// The stable word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Held { .. } | Self::Exists { .. } => "ContextConflict",
            Self::Forbidden { .. } | Self::Io(_) => "ContextError",
        }
    }
}

/// What a path outside of the Tasks' own directories holds.
#[derive(Debug)]
struct Held {
    digest: String,
    tasks: BTreeSet<String>,
    /// Directories that were made for it.
    made: Vec<PathBuf>,
}

/// The shelf of one server.
#[derive(Debug)]
pub struct Shelf {
    workspace: PathBuf,
    held: Mutex<BTreeMap<PathBuf, Held>>,
}

impl Shelf {
    /// An empty one: what an earlier process left behind belongs to no live Task and is taken away.
    pub fn open(workspace: &Path) -> io::Result<Self> {
        let shelf = Self { workspace: workspace.to_owned(), held: Mutex::default() };
        if let Ok(text) = fs::read(shelf.journal()) {
            let left: Vec<PathBuf> = serde_json::from_slice(&text).unwrap_or_default();
            left.iter().try_for_each(|path| remove(path))?;
        }
        remove(&shelf.root())?;
        Ok(shelf)
    }

    fn root(&self) -> PathBuf {
        super::root(&self.workspace)
    }

    /// Every path outside of the Tasks' own directories, on the disk: a process that is killed forgets.
    fn journal(&self) -> PathBuf {
        self.workspace.join(".kubeopencode/held.json")
    }

    fn write_journal(&self, held: &BTreeMap<PathBuf, Held>) -> io::Result<()> {
        let paths: Vec<&PathBuf> =
            held.iter().flat_map(|(path, held)| std::iter::once(path).chain(&held.made)).collect();
        let journal = self.journal();
        make_directories(journal.parent().unwrap_or(Path::new("/")))?;
        let beside = journal.with_extension("new");
        fs::write(&beside, serde_json::to_vec(&paths)?)?;
        fs::rename(beside, journal)
    }

    /// Puts a Task's files where they belong: all or none.
    pub fn put(&self, task: &str, archive: &File) -> Result<(), Refusal> {
        let own = self.root().join(task);
        let staging = self.root().join(format!(".{task}.new"));
        make_directories(&staging)?;
        let result = self.place(task, &own, &staging, archive);
        remove(&staging)?;
        if result.is_err() {
            self.take_away(task);
        }
        result
    }

    fn place(&self, task: &str, own: &Path, staging: &Path, archive: &File) -> Result<(), Refusal> {
        let items = archive::unpack(archive, staging)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (inside, outside): (Vec<Unpacked>, Vec<Unpacked>) =
            items.into_iter().partition(|item| item.path.starts_with(own));
        for item in &outside {
            self.check(item, &held)?;
        }
        for item in &inside {
            make_directories(item.path.parent().unwrap_or(own))?;
            relocate(&item.now, &item.path)?;
        }
        for item in outside {
            if let Some(shared) = held.get_mut(&item.path) {
                shared.tasks.insert(task.to_owned());
                continue;
            }
            let parent = item.path.parent().unwrap_or(Path::new("/"));
            let made = missing_parents(parent);
            let entry = Held { digest: item.digest, tasks: BTreeSet::from([task.to_owned()]), made };
            held.insert(item.path.clone(), entry);
            // Said before it is done: what is done and not said would stay for ever.
            self.write_journal(&held)?;
            make_directories(parent)?;
            relocate(&item.now, &item.path)?;
        }
        Ok(())
    }

    fn check(&self, item: &Unpacked, held: &BTreeMap<PathBuf, Held>) -> Result<(), Refusal> {
        let path = &item.path;
        let climbs = path.components().any(|part| matches!(part, std::path::Component::ParentDir));
        if climbs || !path.is_absolute() || self.workspace.starts_with(path) || path.starts_with(self.root()) {
            return Err(Refusal::Forbidden { path: path.clone() });
        }
        let conflict = held.iter().find(|(other, known)| {
            let same = *other == path && known.digest == item.digest;
            !same && (path.starts_with(other) || other.starts_with(path))
        });
        if let Some((other, known)) = conflict {
            let by = known.tasks.iter().cloned().collect::<Vec<_>>().join(", ");
            return Err(Refusal::Held { path: other.clone(), by });
        }
        if !held.contains_key(path) && path.symlink_metadata().is_ok() {
            return Err(Refusal::Exists { path: path.clone() });
        }
        Ok(())
    }

    /// Takes everything away that only this Task holds.
    pub fn take_away(&self, task: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = Vec::new();
        held.retain(|path, known| {
            known.tasks.remove(task);
            if known.tasks.is_empty() {
                gone.push((path.clone(), std::mem::take(&mut known.made)));
            }
            !known.tasks.is_empty()
        });
        let mut result = remove(&self.root().join(task));
        for (path, made) in gone {
            result = result.and(remove(&path));
            // Others may have put something there; then it stays.
            made.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
        }
        result = result.and(self.write_journal(&held));
        if let Err(error) = result {
            tracing::warn!(task, %error, "not everything that the Task brought could be taken away");
        }
    }
}

/// Directories above `path`, itself included, that are not there; outermost first.
fn missing_parents(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = path.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

fn make_directories(path: &Path) -> io::Result<()> {
    for directory in missing_parents(path) {
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Removes a file or a whole directory; what is not there is fine.
fn remove(path: &Path) -> io::Result<()> {
    let Ok(known) = path.symlink_metadata() else { return Ok(()) };
    if !known.is_dir() {
        return fs::remove_file(path);
    }
    fs::remove_dir_all(path).or_else(|_| {
        // Directories without write permission, as Git contexts may have, refuse to be emptied.
        open_up(path)?;
        fs::remove_dir_all(path)
    })
}

fn open_up(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// Moves, across file systems if need be.
fn relocate(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(from, to),
        // A repository that belongs into the Task's own directory meets what is there already.
        Err(_) if to.is_dir() && from.is_dir() => {
            for entry in fs::read_dir(from)? {
                let entry = entry?;
                relocate(&entry.path(), &to.join(entry.file_name()))?;
            }
            Ok(())
        }
        result => result,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let known = from.symlink_metadata()?;
    if known.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if known.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else {
        fs::copy(from, to)?;
    }
    fs::set_permissions(to, known.permissions())
}
