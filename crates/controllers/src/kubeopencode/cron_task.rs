//! A CronTask: one Task for each instant of its schedule, never two, and never wedged.
//!
//! The ledger is `status.lastScheduleTime`: everything up to it is settled for ever. An instant is taken by moving the
//! ledger with a conditional write that also names the Task to create; the Task is created under a name made of that
//! instant and kept by a finalizer until the status says that it was. So whoever comes next, after a crash or with a
//! stale view, finds either the intention or the Task, never neither.

mod decide;
mod observe;
mod schedule;

pub use decide::decide;
pub use observe::{CronTaskController, Observed, Present};
pub use schedule::{Due, InvalidSchedule, Schedule};
