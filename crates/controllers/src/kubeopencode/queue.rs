//! The queue of an Agent or a template: who may start, in the order of creation.
//!
//! Admission is one conditional write of the host's status, which lists the Tasks that hold a slot and the starts that
//! count against the quota. Two controllers, or one with a stale cache, cannot both admit: the second write is refused.

mod decide;
mod observe;

pub use decide::{Candidate, Line, Stand, admit};
pub use observe::{AgentQueue, TemplateQueue};
