//! `git-init` and `git-sync`: a repository, at the revision the manifest names, where the agent works.
//!
//! A branch, a tag, a commit and `HEAD` all work as `GIT_REF`; a depth of 0 means the whole history. The repository
//! appears whole or not at all: it is cloned beside its place and renamed. Credentials reach git through its
//! environment and a private directory that is gone afterwards; they are never on a command line, in the
//! repository's configuration or in the log.

mod access;
mod command;
mod fetch;
mod settings;
mod tree;

use std::fs;
use std::path::PathBuf;

pub use settings::Settings;

use crate::env::{self, Env};
use access::Access;
use command::Git;

/// Why the repository is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is missing or unreadable.
    #[error(transparent)]
    Setting(#[from] env::Error),
    /// A repository address we do not take.
    #[error("GIT_REPO {0:?} is not supported: use https://, http://, ssh://, git@host:path or file://")]
    UnsupportedRepository(String),
    /// The reference is neither a branch, nor a tag, nor a commit.
    #[error("{repository} has no branch, tag or commit {reference:?}")]
    NoSuchReference {
        /// Where we looked.
        repository: String,
        /// What was asked for.
        reference: String,
    },
    /// The directory asked for is not in the repository.
    #[error("{repository} at {reference} has no path {path:?}")]
    NoSuchPath {
        /// Where we looked.
        repository: String,
        /// At which reference.
        reference: String,
        /// What was asked for.
        path: String,
    },
    /// git failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// The subcommand.
        command: String,
        /// What git said, without credentials.
        message: String,
    },
    /// git could not be started.
    #[error("git cannot be started; is it in the image?")]
    NoGit(#[source] std::io::Error),
    /// The file system refused.
    #[error("cannot {doing} {path}", path = path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether trying again could help.
    fn is_transient(&self) -> bool {
        matches!(self, Self::Git { .. })
    }
}

/// Clones the repository, once: a Pod that starts again keeps what is there.
pub fn init(env: &Env) -> Result<(), Error> {
    let settings = Settings::from_env(env)?;
    let repository = settings.repository_directory();
    if repository.join(".git").exists() {
        tracing::info!(path = %repository.display(), "the repository is already there");
    } else {
        clone_with_retries(&settings, env)?;
    }
    settings.check_path()?;
    write_configuration(&settings)?;
    if let Some(workspace) = &settings.workspace {
        tree::merge_into_workspace(&settings, workspace)?;
    }
    Ok(())
}

/// For an optional repository that cannot be had: an empty directory, so that what mounts it finds one.
pub fn leave_empty(env: &Env) -> Result<(), Error> {
    let settings = Settings::from_env(env)?;
    let directory = settings.wanted_directory();
    fs::create_dir_all(&directory).map_err(tree::failed("create", &directory))?;
    tree::make_writable(&settings.repository_directory())?;
    write_configuration(&settings)
}

/// Keeps the repository at its reference: fetches and resets every interval until it is told to end.
pub fn sync(env: &Env) -> Result<(), Error> {
    let settings = Settings::from_env(env)?;
    let interval = env.seconds("GIT_SYNC_INTERVAL", 300)?;
    loop {
        // The remote may be away for a while; what is checked out stays, and the log says so.
        if let Err(error) = sync_once(&settings, env) {
            tracing::warn!(error = %error, "the repository was not synchronised");
        }
        std::thread::sleep(interval);
    }
}

/// One round of [`sync`].
pub fn sync_once(settings: &Settings, env: &Env) -> Result<(), Error> {
    let access = Access::new(settings, env)?;
    let git = Git::new(settings.repository_directory(), &access);
    let before = git.run(&["rev-parse", "HEAD"])?;
    let commit = fetch::fetch(&git, settings)?.commit;
    git.run(&["reset", "--hard", "--quiet", &commit])?;
    if settings.submodules {
        fetch::update_submodules(&git, settings)?;
    }
    if before.trim() != commit {
        tracing::info!(from = before.trim(), to = commit, "the repository moved");
        tree::make_writable(&settings.repository_directory())?;
    }
    Ok(())
}

fn clone_with_retries(settings: &Settings, env: &Env) -> Result<(), Error> {
    let access = Access::new(settings, env)?;
    let mut attempt = 1;
    loop {
        match clone_once(settings, &access) {
            Err(error) if error.is_transient() && attempt < settings.attempts => {
                tracing::warn!(attempt, error = %error, "the clone failed and is tried again");
                std::thread::sleep(settings.retry_delay);
                attempt += 1;
            }
            done => return done,
        }
    }
}

fn clone_once(settings: &Settings, access: &Access) -> Result<(), Error> {
    let partial = settings.root.join(format!(".{}.partial", settings.link));
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(tree::failed("remove", &partial))?;
    }
    fs::create_dir_all(&partial).map_err(tree::failed("create", &partial))?;
    let git = Git::new(partial.clone(), access);
    git.run(&["init", "--quiet"])?;
    git.run(&["remote", "add", "origin", &settings.repository])?;
    let found = fetch::fetch(&git, settings)?;
    fetch::check_out(&git, &found)?;
    if settings.submodules {
        fetch::update_submodules(&git, settings)?;
    }
    tree::make_writable(&partial)?;
    let repository = settings.repository_directory();
    fs::rename(&partial, &repository).map_err(tree::failed("move into place", &repository))?;
    tracing::info!(repository = settings.shown(), reference = settings.reference, commit = found.commit, "cloned");
    Ok(())
}

/// The agent may run as another user than this container; git must trust the directory all the same.
fn write_configuration(settings: &Settings) -> Result<(), Error> {
    let path = settings.root.join(".gitconfig");
    fs::write(&path, "[safe]\n\tdirectory = *\n").map_err(tree::failed("write", &path))
}
