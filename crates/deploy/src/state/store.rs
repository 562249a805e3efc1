use async_trait::async_trait;

use super::{Keeper, Lock, State};
use crate::failure::{Category, Failure};

/// Where a state is kept, with a lock that holds: a state is written only by the lock's holder, and only on top of the
/// state that the holder read.
#[async_trait]
pub trait Store: Keeper + Sync {
    /// The state, and who has the lock. Anyone may read.
    async fn read(&self) -> Result<(State, Option<Lock>), Failure>;

    /// Takes the lock, or says who has it. The answer is the state.
    async fn lock(&mut self, lock: &Lock) -> Result<State, Failure>;

    /// Gives the lock back.
    async fn unlock(&mut self) -> Result<(), Failure>;

    /// Takes the lock away from someone who is gone.
    async fn force_unlock(&self, id: &str) -> Result<(), Failure>;
}

/// A writer whose state is not the one that it builds on.
pub(super) fn overtaken(expected: u64, found: u64) -> Failure {
    let message = format!("the state has serial {found}, not {expected}: someone else wrote it; ours was not written");
    Failure::new(Category::Conflict, message)
}

/// A keeper that was never given the lock.
pub(super) fn unlocked() -> Failure {
    Failure::new(Category::Conflict, "the state is written only by the holder of its lock")
}
