//! What `git-init` is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use crate::env::Env;

use super::Error;

/// The settings of one repository.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it comes from.
    pub repository: String,
    /// Branch, tag, commit or `HEAD`.
    pub reference: String,
    /// How many commits; `None` is all of them.
    pub depth: Option<u32>,
    /// The volume that holds it.
    pub root: PathBuf,
    /// Its directory under the root.
    pub link: String,
    /// The part of it that is wanted.
    pub path: Option<String>,
    /// Bring submodules too.
    pub submodules: bool,
    /// Copy it over this workspace instead of mounting it.
    pub workspace: Option<PathBuf>,
    /// How often to try.
    pub attempts: u32,
    /// How long to wait between two tries.
    pub retry_delay: Duration,
}

impl Settings {
    /// Reads `GIT_*`.
    pub fn from_env(env: &Env) -> Result<Self, Error> {
        let repository = env.require("GIT_REPO")?.to_owned();
        if !is_supported(&repository) {
            return Err(Error::UnsupportedRepository(without_credentials(&repository)));
        }
        let depth = env.number("GIT_DEPTH", 1)?;
        Ok(Self {
            repository,
            reference: env.get_or("GIT_REF", "HEAD").to_owned(),
            depth: (depth > 0).then_some(depth),
            root: PathBuf::from(env.get_or("GIT_ROOT", "/git")),
            link: env.get_or("GIT_LINK", "repo").to_owned(),
            path: env
                .get("GIT_REPO_SUBPATH")
                .map(|path| path.trim_matches('/').to_owned())
                .filter(|path| !path.is_empty()),
            submodules: env.flag("GIT_RECURSE_SUBMODULES"),
            workspace: env.get("GIT_WORKSPACE_DIR").map(PathBuf::from),
            attempts: env.number("GIT_CLONE_RETRIES", 3)?.max(1),
            retry_delay: env.seconds("GIT_CLONE_RETRY_DELAY", 5)?,
        })
    }

    /// Where the repository ends up.
    pub fn repository_directory(&self) -> PathBuf {
        self.root.join(&self.link)
    }

    /// The directory of the repository that is wanted.
    pub fn wanted_directory(&self) -> PathBuf {
        let repository = self.repository_directory();
        self.path.as_ref().map_or(repository.clone(), |path| repository.join(path))
    }

    /// The address as it may appear in a log.
    pub fn shown(&self) -> String {
        without_credentials(&self.repository)
    }

    /// The part that is wanted must be there, inside the repository: a link that leads out of it does not count.
    pub fn check_path(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let inside = || {
            let repository = self.repository_directory().canonicalize().ok()?;
            self.wanted_directory().canonicalize().ok().filter(|wanted| wanted.starts_with(repository))
        };
        inside().map(|_| ()).ok_or_else(|| Error::NoSuchPath {
            repository: self.shown(),
            reference: self.reference.clone(),
            path: path.clone(),
        })
    }
}

fn is_supported(repository: &str) -> bool {
    let by_scheme = ["https://", "http://", "ssh://", "file://"].iter().any(|scheme| repository.starts_with(scheme));
    let by_host = repository.split_once('@').is_some_and(|(user, rest)| {
        !user.is_empty() && !user.contains('/') && !user.starts_with('-') && rest.contains(':')
    });
    by_scheme || by_host
}

/// `https://user:secret@host/path` → `https://host/path`.
pub(super) fn without_credentials(repository: &str) -> String {
    let Some((scheme, rest)) = repository.split_once("://") else { return repository.to_owned() };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_git_would_take_for_an_option_or_a_path_are_refused() {
        for refused in
            ["--upload-pack=x", "-oProxyCommand=x@h:p", "/etc", "ext::sh -c id", "git@host", "ftp://host/x", ""]
        {
            assert!(!is_supported(refused), "{refused}");
        }
        for taken in ["https://host/x", "http://host/x", "git@host:org/x.git", "ssh://git@host/x", "file:///srv/x.git"]
        {
            assert!(is_supported(taken), "{taken}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        assert_eq!(without_credentials("https://me:secret@host/org/x"), "https://host/org/x");
        assert_eq!(without_credentials("git@host:org/x"), "git@host:org/x");
    }

    #[test]
    fn depth_zero_is_the_whole_history() {
        let env = |depth: &str| [("GIT_REPO", "https://host/x"), ("GIT_DEPTH", depth)].into_iter().collect::<Env>();
        assert_eq!(Settings::from_env(&env("0")).expect("valid").depth, None);
        assert_eq!(Settings::from_env(&env("7")).expect("valid").depth, Some(7));
        assert_eq!(Settings::from_env(&env("")).expect("valid").depth, Some(1));
    }
}
