//! What a decision about a CronTask depends on.

use std::sync::Arc;

use api::kubeopencode::{CronTask, Task, TaskPhase, names};
use engine::{Controller, Decision, Error, Failure, Key, View, Watches};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::kubeopencode::owner::belongs_to;

/// Creates Tasks on schedules.
pub struct CronTaskController;

/// What a decision about a CronTask depends on.
#[derive(Clone, Debug)]
pub enum Observed {
    /// The CronTask is there.
    CronTask(Box<Present>),
    /// It is gone, and these Tasks still wait to be let go.
    Orphans(Vec<Arc<Task>>),
}

/// A CronTask and its Tasks.
#[derive(Clone, Debug)]
pub struct Present {
    /// The CronTask.
    pub cron: Arc<CronTask>,
    /// Its Tasks.
    pub children: Vec<Arc<Task>>,
    /// The Task that it is about to create, when it exists: asked of the API server itself.
    pub pending: Option<Arc<Task>>,
}

impl Controller for CronTaskController {
    const NAME: &'static str = "kubeopencode-crontask";
    /// Schedules like full hours: many are due in the same moment, and no one's order matters to another.
    const WORKERS: usize = 32;
    const PUNCTUAL: bool = true;
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<CronTask>().changes::<Task>(|change, _| {
            let seen = |task: &Option<Arc<Task>>| task.as_ref().map(|task| concern(task));
            if seen(&change.before) == seen(&change.after) {
                return Vec::new();
            }
            let tasks = change.before.iter().chain(&change.after);
            tasks
                .filter_map(|task| Some(Key::new(task.namespace()?, task.labels().get(names::CRON_TASK_LABEL)?)))
                .collect()
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(mut cron) = view.get::<CronTask>(key).await? else {
            let labelled = |task: &Arc<Task>| task.labels().get(names::CRON_TASK_LABEL) == Some(&key.name);
            let tasks = view.list::<Task>(&key.namespace).into_iter().filter(labelled);
            let tracked: Vec<Arc<Task>> = tasks.filter(|task| is_tracked(task)).collect();
            return Ok((!tracked.is_empty()).then_some(Observed::Orphans(tracked)));
        };
        let mut pending = pending(&cron, key, view).await?;
        if pending.is_none() && is_pending(&cron) {
            // About to create it: it may be missing because someone else has created, recorded and let it go already.
            match view.live::<CronTask>(key).await? {
                Some(live) if live.uid() == cron.uid() => cron = live,
                _ => return Ok(None),
            }
            pending = self::pending(&cron, key, view).await?;
        }
        let uid = cron.uid().unwrap_or_default();
        let owned = view.owned::<Task>(&uid).into_iter();
        let children: Vec<Arc<Task>> = owned.filter(|task| belongs_to(&**task, &uid)).collect();
        Ok(Some(Observed::CronTask(Box::new(Present { cron, children, pending }))))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        super::decide(observed, now)
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        super::decide::refused(observed, failure, now)
    }
}

fn is_pending(cron: &CronTask) -> bool {
    cron.status.as_ref().is_some_and(|status| status.pending_task.is_some())
}

/// The Task that is about to be created, when it exists.
async fn pending(cron: &CronTask, key: &Key, view: &View) -> Result<Option<Arc<Task>>, Error> {
    match cron.status.as_ref().and_then(|status| status.pending_task.clone()) {
        None => Ok(None),
        Some(name) => view.get::<Task>(&Key::new(&key.namespace, name)).await,
    }
}

/// What about a Task concerns its schedule.
fn concern(task: &Task) -> (Option<String>, Option<TaskPhase>, bool, bool) {
    let phase = task.status.as_ref().and_then(|status| status.phase).filter(|phase| phase.is_final());
    (task.uid(), phase, is_tracked(task), task.metadata.deletion_timestamp.is_some())
}

/// Whether the Task waits for us to record that it was created.
pub(super) fn is_tracked(task: &Task) -> bool {
    task.finalizers().iter().any(|finalizer| finalizer == names::TRACKING_FINALIZER)
}
