//! When finished Tasks are deleted: after their time to live, then by how many a namespace keeps.

mod decide;
mod observe;

pub use decide::{Finished, Keep, expired};
pub use observe::CleanupController;
