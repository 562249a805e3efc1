//! What cleaning up looks at: a namespace and its finished Tasks.

use std::sync::Arc;

use api::kubeopencode::{Cleanup, KubeOpenCodeConfig, Task, TaskPhase};
use engine::{Controller, Decision, Deletion, Error, Key, Step, Target, View, Watches};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::PropagationPolicy;

use super::decide::{Finished, expired};
use crate::kubeopencode::host::cluster_config;

/// Deletes finished Tasks. Its keys are namespaces.
pub struct CleanupController;

/// A namespace.
pub struct Observed {
    cleanup: Cleanup,
    finished: Vec<Arc<Task>>,
}

impl Controller for CleanupController {
    const NAME: &'static str = "kubeopencode-cleanup";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::default()
            .changes::<Task>(|change, _| {
                let ended = |task: &Option<Arc<Task>>| task.as_ref().is_some_and(|task| is_finished(task));
                let namespace = change.after.as_ref().and_then(|task| task.namespace());
                let news = !ended(&change.before) && ended(&change.after);
                namespace.filter(|_| news).map(|namespace| Key::new("", namespace)).into_iter().collect()
            })
            .mapped::<KubeOpenCodeConfig>(|_, view| {
                let mut namespaces: Vec<String> = view.list::<Task>("").iter().filter_map(|t| t.namespace()).collect();
                namespaces.sort();
                namespaces.dedup();
                namespaces.into_iter().map(|namespace| Key::new("", namespace)).collect()
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(cleanup) = cluster_config(view).and_then(|config| config.cleanup) else { return Ok(None) };
        let finished = view.list::<Task>(&key.name).into_iter().filter(|task| is_finished(task)).collect();
        Ok(Some(Observed { cleanup, finished }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        let tasks = observed.finished.iter().map(|task| Finished { name: task.name_any(), completed: completed(task) });
        let keep = expired(&observed.cleanup, tasks.collect(), now);
        let mut decision = Decision::none();
        for name in keep.delete {
            let task = observed.finished.iter().find(|task| task.name_any() == name).expect("a name that was given");
            decision.step(Step::Delete(Deletion {
                target: Target::of(&**task),
                propagation: Some(PropagationPolicy::Background),
                grace_seconds: None,
            }));
        }
        if let Some(at) = keep.look_again {
            decision.look_again(at);
        }
        decision
    }
}

fn is_finished(task: &Task) -> bool {
    let over = task.status.as_ref().and_then(|status| status.phase).is_some_and(TaskPhase::is_final);
    over && task.metadata.deletion_timestamp.is_none()
}

fn completed(task: &Task) -> Timestamp {
    let end = task.status.as_ref().and_then(|status| status.completion_time.clone());
    end.or_else(|| task.creation_timestamp()).map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}
