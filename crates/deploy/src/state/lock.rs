use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::{Category, Failure};

/// Who works on a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// What this lock, and no later one, is known by.
    pub id: String,
    /// The person, the machine and the process.
    pub owner: String,
    /// What is being done.
    pub operation: String,
    /// Since when.
    pub since: Timestamp,
}

impl Lock {
    /// A lock of this process.
    pub fn new(operation: &str) -> Self {
        let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "someone".into());
        let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self {
            id: uuid::Uuid::new_v4().to_string(),
            owner: format!("{user} on {host}, process {}", std::process::id()),
            operation: operation.to_owned(),
            since: Timestamp::now(),
        }
    }

    /// What someone hears who wanted it too.
    pub(super) fn held(&self) -> Failure {
        let message = format!(
            "the deployment is locked by {} ({} since {})",
            self.owner,
            self.operation,
            self.since.strftime("%Y-%m-%d %H:%M:%S UTC")
        );
        let hint = format!("wait for it; if it is dead, `orrery deploy unlock --id {}`", self.id);
        Failure::new(Category::Conflict, message).hint(hint)
    }

    /// What the holder hears when it is not the holder any more.
    pub(super) fn lost(&self, now: Option<&Self>) -> Failure {
        let by = now.map_or("it was unlocked by force".to_owned(), |now| format!("{} has it now", now.owner));
        Failure::new(Category::Conflict, format!("the lock {} is lost: {by}; the state was not written", self.id))
            .hint("what was done until now carries our labels: the next plan finds it")
    }

    /// Whether it may be broken with this id.
    pub(super) fn breakable(lock: Option<&Self>, id: &str) -> Result<(), Failure> {
        match lock {
            None => Err(Failure::new(Category::NotFound, "the deployment is not locked")),
            Some(lock) if lock.id == id => Ok(()),
            Some(lock) => {
                let message = format!("{id} is not the lock's id; it is held by {}", lock.owner);
                Err(Failure::new(Category::Conflict, message).hint("the loser of the lock is told its id"))
            }
        }
    }
}
