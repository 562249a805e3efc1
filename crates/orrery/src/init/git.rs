//! `git-init`: a clone at a branch, a tag or a commit, into a volume of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{files, is_set, path, required, variable};
use crate::style;

/// A repository and where it goes.
pub struct Clone {
    repository: String,
    reference: String,
    depth: u32,
    submodules: bool,
    root: PathBuf,
    pub target: PathBuf,
    access: Access,
}

/// How the remote is reached. Secrets stay in the environment; only the key and the known hosts need a file.
struct Access {
    variables: Vec<(&'static str, String)>,
    directory: PathBuf,
}

pub fn run() -> anyhow::Result<()> {
    let clone = Clone::from_environment()?;
    let result = clone.make();
    clone.access.forget();
    result?;
    if let Some(workspace) = variable("GIT_WORKSPACE_DIR") {
        clone.copy_into(Path::new(&workspace))?;
    }
    Ok(())
}

/// For an optional repository that cannot be had: an empty directory, so that what mounts it finds one.
pub fn leave_empty() -> anyhow::Result<()> {
    let root = path("GIT_ROOT", "/git");
    files::write(&root.join(".gitconfig"), SAFE, files::FILE)?;
    files::make_directory(&root.join(variable("GIT_LINK").unwrap_or_else(|| "repo".into())))
}

/// The clone belongs to another user than the agent; it is meant to be used by it.
const SAFE: &[u8] = b"[safe]\n\tdirectory = *\n";

impl Clone {
    pub fn from_environment() -> anyhow::Result<Self> {
        let repository = required("GIT_REPO")?;
        if repository.starts_with("http://") {
            style::say("GIT_REPO is http://: what is fetched is neither secret nor safe from changes on the way");
        }
        let depth = variable("GIT_DEPTH").unwrap_or_else(|| "1".into());
        let depth = depth.parse().with_context(|| format!("GIT_DEPTH is {depth:?}, which is not a number"))?;
        let root = path("GIT_ROOT", "/git");
        Ok(Self {
            repository,
            reference: variable("GIT_REF").unwrap_or_else(|| "HEAD".into()),
            depth,
            submodules: is_set("GIT_RECURSE_SUBMODULES"),
            target: root.join(variable("GIT_LINK").unwrap_or_else(|| "repo".into())),
            access: Access::prepare()?,
            root,
        })
    }

    fn make(&self) -> anyhow::Result<()> {
        files::write(&self.root.join(".gitconfig"), SAFE, files::FILE)?;
        if self.target.join(".git").exists() {
            style::say(format_args!("{} is there already", self.target.display()));
            return Ok(());
        }
        let attempts: u32 = variable("GIT_CLONE_RETRIES").and_then(|text| text.parse().ok()).unwrap_or(3).max(1);
        let delay = variable("GIT_CLONE_RETRY_DELAY").and_then(|text| api::duration::Duration(text).parse().ok());
        let delay = delay.and_then(|delay| Duration::try_from(delay).ok()).unwrap_or(Duration::from_secs(5));
        for attempt in 1..=attempts {
            match self.attempt() {
                Ok(()) => break,
                Err(error) if attempt == attempts => return Err(error),
                Err(error) => {
                    style::say(format_args!("attempt {attempt} of {attempts}: {error:#}"));
                    std::thread::sleep(delay);
                }
            }
        }
        files::open_to_all(&self.target)
    }

    fn attempt(&self) -> anyhow::Result<()> {
        if self.target.exists() {
            fs::remove_dir_all(&self.target)?;
        }
        files::make_directory(&self.target)?;
        self.git(&["init", "--quiet"])?;
        self.git(&["remote", "add", "origin", &self.repository])?;
        self.check_out()?;
        if self.submodules {
            let depth = self.depth.to_string();
            let mut words = vec!["submodule", "update", "--init", "--recursive", "--quiet"];
            if self.depth > 0 {
                words.extend(["--depth", &depth]);
            }
            self.git(&words)?;
        }
        Ok(())
    }

    /// A branch stays one, so that the agent can commit to it. A tag or a commit is checked out as it is.
    fn check_out(&self) -> anyhow::Result<()> {
        let branch = if self.reference == "HEAD" { self.default_branch() } else { Some(self.reference.clone()) };
        if let Some(branch) = branch
            && self.fetch(&format!("+refs/heads/{branch}:refs/remotes/origin/{branch}")).is_ok()
        {
            return self.git(&["checkout", "--quiet", "-B", &branch, "--track", &format!("origin/{branch}")]);
        }
        let tag = format!("+refs/tags/{0}:refs/tags/{0}", self.reference);
        if self.fetch(&tag).is_ok() {
            return self.git(&["checkout", "--quiet", "--detach", &format!("refs/tags/{}", self.reference)]);
        }
        if self.fetch(&self.reference).is_ok() {
            return self.git(&["checkout", "--quiet", "--detach", "FETCH_HEAD"]);
        }
        // A server that hands out no single commits, or a commit's short name: everything, and then look.
        self.git(&["fetch", "--quiet", "--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"])?;
        self.git(&["checkout", "--quiet", "--detach", &self.reference])
            .with_context(|| format!("GIT_REF {:?} is no branch, tag or commit of {}", self.reference, self.repository))
    }

    fn fetch(&self, what: &str) -> anyhow::Result<()> {
        let depth = self.depth.to_string();
        let mut words = vec!["fetch", "--quiet", "--no-tags"];
        if self.depth > 0 {
            words.extend(["--depth", &depth]);
        }
        words.extend(["origin", what]);
        self.git(&words)
    }

    fn default_branch(&self) -> Option<String> {
        let output = self.command(&["ls-remote", "--symref", "origin", "HEAD"]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find_map(|line| Some(line.strip_prefix("ref: refs/heads/")?.split('\t').next()?.to_owned()))
    }

    /// Brings the clone to what the reference is now.
    pub fn update(&self) -> anyhow::Result<()> {
        let wanted = if self.reference == "HEAD" { "HEAD" } else { self.reference.as_str() };
        self.git(&["fetch", "--quiet", "origin", wanted])?;
        self.git(&["reset", "--quiet", "--hard", "FETCH_HEAD"])?;
        files::open_to_all(&self.target)
    }

    fn copy_into(&self, workspace: &Path) -> anyhow::Result<()> {
        let inner = variable("GIT_REPO_SUBPATH").unwrap_or_default();
        let source = self.target.join(inner.trim_matches('/'));
        let status = Command::new("cp").arg("-a").arg(source.join(".")).arg(workspace).status();
        match status.context("cannot start cp")? {
            status if status.success() => Ok(()),
            _ => bail!("cannot copy {} into {}", source.display(), workspace.display()),
        }
    }

    fn git(&self, words: &[&str]) -> anyhow::Result<()> {
        let output = self.command(words).output().context("cannot start git; is it installed in the image?")?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("git {} failed: {}", words.first().unwrap_or(&""), said.trim())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.target).args(words);
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_GLOBAL", self.root.join(".gitconfig"));
        command.envs(self.access.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command
    }
}

impl Access {
    fn prepare() -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("git-access-{}", std::process::id()));
        let mut variables = Vec::new();
        if variable("GIT_PASSWORD").is_some() {
            // Git asks a helper, and the helper reads the environment: no secret is written down.
            variables.push(("GIT_CONFIG_COUNT", "1".to_owned()));
            variables.push(("GIT_CONFIG_KEY_0", "credential.helper".to_owned()));
            let helper = "!f() { echo \"username=${GIT_USERNAME:-git}\"; echo \"password=${GIT_PASSWORD}\"; }; f";
            variables.push(("GIT_CONFIG_VALUE_0", helper.to_owned()));
        }
        if let Some(key) = variable("GIT_SSH_KEY") {
            let file = directory.join("key");
            files::write(&file, format!("{}\n", key.trim_end()).as_bytes(), 0o600)?;
            let mut command = format!("ssh -i {} -o IdentitiesOnly=yes", file.display());
            let hosts = directory.join("known_hosts");
            if let Some(known) = variable("GIT_SSH_KNOWN_HOSTS") {
                files::write(&hosts, known.as_bytes(), 0o600)?;
                command.push_str(" -o StrictHostKeyChecking=yes");
            } else {
                style::say("the Secret has no ssh-known-hosts: the server's key is taken as it comes");
                command.push_str(" -o StrictHostKeyChecking=accept-new");
            }
            variables.push(("GIT_SSH_COMMAND", format!("{command} -o UserKnownHostsFile={}", hosts.display())));
        }
        if let Some(bundle) = variable("CUSTOM_CA_CERT_PATH") {
            let merged = directory.join("ca-bundle.crt");
            let mut text = system_authorities();
            text.extend(fs::read(&bundle).with_context(|| format!("cannot read {bundle}"))?);
            files::write(&merged, &text, files::FILE)?;
            variables.push(("GIT_SSL_CAINFO", merged.display().to_string()));
        }
        Ok(Self { variables, directory })
    }

    fn forget(&self) {
        // It may never have been made.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn system_authorities() -> Vec<u8> {
    let known = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    let mut text = known.iter().find_map(|file| fs::read(file).ok()).unwrap_or_default();
    text.push(b'\n');
    text
}
