//! Defects of other systems, put back on purpose: the scenarios must catch every one of them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::kubeopencode::{ActiveTask, Task, TaskPhase};
use engine::{Controller, Decision, Engine, Error, Failure, Key, Step, View, Watches};
use futures::FutureExt as _;
use jiff::Timestamp;
use kube::ResourceExt;
use orrery_controllers::Options;
use orrery_controllers::kubeopencode::host::Host;
use orrery_controllers::kubeopencode::session::NoSessions;
use orrery_controllers::kubeopencode::{cron_task, queue, task};
use rstest::rstest;
use serde_json::Value;

use crate::scenarios::{Scenario, a_deleted_instant, a_long_outage, a_quota, one_slot, prove, tasks_run_once};
use crate::world::Install;

/// A controller whose decisions are spoilt.
struct Mutant<C> {
    controller: C,
    spoil: fn(&mut Decision),
}

impl<C: Controller> Controller for Mutant<C> {
    const NAME: &'static str = C::NAME;
    type Observed = C::Observed;

    fn watches(&self) -> Watches {
        self.controller.watches()
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Self::Observed>, Error> {
        self.controller.observe(key, view).await
    }

    fn decide(&self, observed: &Self::Observed, now: Timestamp) -> Decision {
        let mut decision = self.controller.decide(observed, now);
        (self.spoil)(&mut decision);
        decision
    }

    fn refused(&self, observed: &Self::Observed, failure: &Failure, now: Timestamp) -> Decision {
        self.controller.refused(observed, failure, now)
    }
}

fn tasks() -> task::TaskController {
    let options = Options::default();
    task::TaskController { policy: options.policy, sessions: Arc::new(NoSessions), logs: None }
}

fn status_of<'a>(step: &'a mut Step, kind: &str) -> Option<&'a mut Value> {
    match step {
        Step::Patch(patch) if patch.subresource == Some("status") && patch.target.resource.kind == kind => {
            patch.body.get_mut("status")
        }
        _ => None,
    }
}

/// D2: after more than a hundred missed instants the ledger never moves on.
fn wedged_schedule(engine: Engine) -> Engine {
    engine.with(tasks()).with(queue::TemplateQueue).with(Mutant {
        controller: cron_task::CronTaskController,
        spoil: |decision| {
            if decision.events.iter().any(|event| event.reason == "TooManyMissed") {
                decision.steps.clear();
            }
        },
    })
}

/// D3: a start is counted without looking whether it was counted before.
fn counted_again(engine: Engine) -> Engine {
    engine.with(tasks()).with(Mutant {
        controller: queue::TemplateQueue,
        spoil: |decision| {
            for status in decision.steps.iter_mut().filter_map(|step| status_of(step, "AgentTemplate")) {
                let Some(history) = status["taskStartHistory"].as_array_mut() else { continue };
                if let Some(last) = history.last().cloned() {
                    history.push(last);
                }
            }
        },
    })
}

/// D4: capacity is what the cache says, and nothing holds a slot against a second look.
struct ByCache(task::TaskController);

impl Controller for ByCache {
    const NAME: &'static str = task::TaskController::NAME;
    type Observed = task::Observed;

    fn watches(&self) -> Watches {
        self.0.watches()
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Self::Observed>, Error> {
        let mut observed = self.0.observe(key, view).await?;
        let runs = |task: &&Arc<Task>| task.status.as_ref().and_then(|s| s.phase) == Some(TaskPhase::Running);
        let running = view.list::<Task>(&key.namespace).iter().filter(runs).count();
        if let Some(task::Observed::Task(present)) = &mut observed
            && let Host::Template(template) = &mut present.host
            && running < 1
        {
            let slot = ActiveTask { name: key.name.clone(), uid: present.task.uid().unwrap_or_default() };
            Arc::make_mut(template).status.get_or_insert_default().active_tasks.push(slot);
        }
        Ok(observed)
    }

    fn decide(&self, observed: &Self::Observed, now: Timestamp) -> Decision {
        self.0.decide(observed, now)
    }
}

fn admitted_by_cache(engine: Engine) -> Engine {
    engine.with(ByCache(tasks()))
}

/// D9: Pods get a new name each time, so that a second look makes a second Pod.
fn made_again(engine: Engine) -> Engine {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    engine.with(queue::TemplateQueue).with(Mutant {
        controller: tasks(),
        spoil: |decision| {
            for step in &mut decision.steps {
                if let Step::Create(object) = step
                    && object.resource.kind == "Pod"
                {
                    let name = object.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    object.value["metadata"]["name"] =
                        format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed)).into();
                }
            }
        },
    })
}

/// D10: nothing keeps a Task until it is recorded, so that one that is gone looks like one that was never made.
fn forgotten_instant(engine: Engine) -> Engine {
    engine.with(tasks()).with(queue::TemplateQueue).with(Mutant {
        controller: cron_task::CronTaskController,
        spoil: |decision| {
            for step in &mut decision.steps {
                if let Step::Create(object) = step {
                    object.value["metadata"]["finalizers"] = Value::Array(Vec::new());
                }
            }
        },
    })
}

#[rstest]
#[case::d2(wedged_schedule, a_long_outage)]
#[case::d3(counted_again, a_quota)]
#[case::d4(admitted_by_cache, one_slot)]
#[case::d9(made_again, tasks_run_once)]
#[case::d10(forgotten_instant, a_deleted_instant)]
#[tokio::test]
async fn a_defect_put_back_is_caught(#[case] mutant: Install, #[case] scenario: Scenario) {
    let caught = match AssertUnwindSafe(prove(scenario, mutant, (1, 4))).catch_unwind().await {
        Ok(result) => result.is_err(),
        Err(_) => true,
    };
    assert!(caught, "the scenario does not notice");
}
