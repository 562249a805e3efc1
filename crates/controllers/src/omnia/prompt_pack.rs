//! A `PromptPack`: its content is checked, kept, and made active.

mod decide;
mod observe;

pub use decide::decide;
pub use observe::{Observed, PackController};
