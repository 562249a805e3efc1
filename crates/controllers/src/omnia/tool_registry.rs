//! A `ToolRegistry`: who serves which tool, and whether it can be called.

mod decide;
pub mod discover;
mod locate;
mod observe;
mod probe;
mod question;
pub mod reach;
pub(crate) mod schemas;

pub use decide::decide;
pub use locate::Place;
pub use observe::{Observed, RegistryController};
pub use question::{Asked, Question, Stop, What};
