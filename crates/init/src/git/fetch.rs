//! Finding a reference and fetching no more than asked for.

use super::Error;
use super::command::Git;
use super::settings::Settings;

/// What a reference turned out to be.
pub(super) struct Found {
    /// The commit.
    pub commit: String,
    /// The branch to stand on, so that the agent can commit and push; `None` for tags and commits.
    pub branch: Option<String>,
}

/// Fetches the reference and says which commit it is.
pub(super) fn fetch(git: &Git<'_>, settings: &Settings) -> Result<Found, Error> {
    let reference = settings.reference.as_str();
    let branch = match kind_of(git, reference)? {
        Kind::Branch(branch) => {
            fetch_one(git, &format!("refs/heads/{branch}"), settings.depth)?;
            Some(branch)
        }
        Kind::Tag => {
            fetch_one(git, &format!("refs/tags/{reference}"), settings.depth)?;
            None
        }
        Kind::Other => return fetch_commit(git, settings),
    };
    let commit = git.run(&["rev-parse", "FETCH_HEAD^{commit}"])?.trim().to_owned();
    Ok(Found { commit, branch })
}

/// Puts the commit into the working tree.
pub(super) fn check_out(git: &Git<'_>, found: &Found) -> Result<(), Error> {
    let Some(branch) = &found.branch else {
        return git.run(&["checkout", "--quiet", "--detach", &found.commit]).map(|_| ());
    };
    git.run(&["checkout", "--quiet", "-B", branch, &found.commit])?;
    git.run(&["config", &format!("branch.{branch}.remote"), "origin"])?;
    git.run(&["config", &format!("branch.{branch}.merge"), &format!("refs/heads/{branch}")]).map(|_| ())
}

/// Brings every submodule, as deep as the repository itself.
pub(super) fn update_submodules(git: &Git<'_>, settings: &Settings) -> Result<(), Error> {
    let depth = settings.depth.map(|depth| depth.to_string());
    let mut arguments = vec!["submodule", "update", "--init", "--recursive", "--quiet"];
    arguments.extend(depth.iter().flat_map(|depth| ["--depth", depth.as_str()]));
    git.run(&arguments).map(|_| ())
}

enum Kind {
    Branch(String),
    Tag,
    /// A commit, or nothing at all.
    Other,
}

fn kind_of(git: &Git<'_>, reference: &str) -> Result<Kind, Error> {
    let (branch, tag) = (format!("refs/heads/{reference}"), format!("refs/tags/{reference}"));
    let listing = git.run(&["ls-remote", "--symref", "origin", "HEAD", &branch, &tag])?;
    if reference == "HEAD" {
        let target = listing.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
        return Ok(target.map_or(Kind::Other, |branch| Kind::Branch(branch.to_owned())));
    }
    let has = |name: &str| listing.lines().any(|line| line.split_once('\t').is_some_and(|(_, listed)| listed == name));
    Ok(if has(&branch) {
        Kind::Branch(reference.to_owned())
    } else if has(&tag) {
        Kind::Tag
    } else {
        Kind::Other
    })
}

/// Servers may refuse a commit by its name, and shortened names only mean something here: then everything is fetched
/// and the commit looked for in it.
fn fetch_commit(git: &Git<'_>, settings: &Settings) -> Result<Found, Error> {
    let reference = settings.reference.as_str();
    let missing = || Error::NoSuchReference { repository: settings.shown(), reference: reference.to_owned() };
    let full = matches!(reference.len(), 40 | 64) && is_hexadecimal(reference);
    if !full && reference != "HEAD" && !(reference.len() >= 4 && is_hexadecimal(reference)) {
        return Err(missing());
    }
    if !(full && fetch_one(git, reference, settings.depth).is_ok()) {
        git.run(&["fetch", "--quiet", "--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"])?;
    }
    let commit =
        git.run(&["rev-parse", "--verify", "--quiet", &format!("{reference}^{{commit}}")]).map_err(|_| missing())?;
    Ok(Found { commit: commit.trim().to_owned(), branch: None })
}

fn fetch_one(git: &Git<'_>, reference: &str, depth: Option<u32>) -> Result<(), Error> {
    let depth = depth.map(|depth| format!("--depth={depth}"));
    let mut arguments = vec!["fetch", "--quiet"];
    arguments.extend(depth.as_deref());
    arguments.extend(["origin", reference]);
    git.run(&arguments).map(|_| ())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
