//! Commands that work with Agents, Tasks and CronTasks.

pub mod control;
pub mod logs;
pub mod run;
pub mod why;
