//! A `ToolRegistry`: who serves which tool, and whether it can be called.

mod decide;
mod locate;
mod observe;
pub mod reach;

pub use decide::decide;
pub use locate::Place;
pub use observe::{Observed, RegistryController};
