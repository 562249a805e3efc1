//! A `PromptPack`: its content is checked, kept, and made active, at once or as a canary.

mod decide;
mod observe;
mod rollout;

pub use decide::decide;
pub use observe::{Observed, PackController};
