//! One git command.

use std::path::PathBuf;
use std::process::Command;

use super::Error;
use super::access::Access;

/// git in one directory, with one way in.
pub(super) struct Git<'a> {
    directory: PathBuf,
    access: &'a Access,
}

impl<'a> Git<'a> {
    pub fn new(directory: PathBuf, access: &'a Access) -> Self {
        Self { directory, access }
    }

    /// Runs git and returns what it printed. The message of a failure is what git said.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        let output = Command::new("git")
            .arg("-C")
            .arg(&self.directory)
            .args(["-c", "safe.directory=*", "-c", "advice.detachedHead=false"])
            .args(arguments)
            .envs(self.access.variables.iter().map(|(key, value)| (key, value)))
            .output()
            .map_err(Error::NoGit)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::Git {
            command: arguments.first().copied().unwrap_or_default().to_owned(),
            message: self.without_secrets(said.trim()),
        })
    }

    /// git repeats addresses in its messages; a password inside one must not reach the log.
    fn without_secrets(&self, message: &str) -> String {
        let secrets = self.access.variables.iter().filter(|(key, _)| key == "ORRERY_GIT_PASSWORD");
        let hidden = secrets.fold(message.to_owned(), |text, (_, secret)| text.replace(secret, "***"));
        hidden
            .split(' ')
            .map(|word| if word.contains("://") { super::settings::without_credentials(word) } else { word.to_owned() })
            .collect::<Vec<_>>()
            .join(" ")
    }
}
