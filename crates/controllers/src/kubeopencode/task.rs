//! A Task: queued, admitted, run in one Pod, recorded.

mod decide;
mod observe;
mod outcome;
mod recipe;

pub use decide::decide;
pub use observe::{Observed, Present, TaskController};
pub use outcome::{PodState, pod_state};

use std::time::Duration;

use crate::pod::System;

/// What the operator of the platform decides about Tasks.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Images and the like.
    pub system: System,
    /// How long a Task waits for an Agent, a template or a `ConfigMap` that is not there (yet).
    pub dependency_patience: Duration,
    /// How long a Pod may fail to get its image before the Task fails.
    pub image_patience: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            system: System::default(),
            dependency_patience: Duration::from_secs(30),
            image_patience: Duration::from_mins(5),
        }
    }
}
