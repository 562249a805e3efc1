//! Scenarios, each run without faults and then with a fault at every write.

use std::sync::Arc;
use std::time::Duration;

use api::kubeopencode::{CronTask, Task};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use testkit::faults::{Fault, KINDS};

use crate::world::{World, all_over, exceeds, one_at_a_time, plane, starts, summary};

const HOUR: Duration = Duration::from_hours(1);

fn template(extra: &str) -> String {
    format!(
        "apiVersion: kubeopencode.io/v1alpha1\nkind: AgentTemplate\nmetadata: {{ name: dev }}\nspec: {{ workspaceDir: /workspace, serviceAccountName: sa, command: [work], {extra} }}"
    )
}

fn task(name: &str, extra: &str) -> String {
    format!(
        "apiVersion: kubeopencode.io/v1alpha1\nkind: Task\nmetadata: {{ name: {name} }}\nspec: {{ templateRef: {{ name: dev }}, description: x{extra} }}"
    )
}

fn cron(policy: &str, extra: &str) -> String {
    format!(
        "apiVersion: kubeopencode.io/v1alpha1\nkind: CronTask\nmetadata: {{ name: c }}\nspec: {{ schedule: '0 * * * *', concurrencyPolicy: {policy}{extra}, taskTemplate: {{ spec: {{ templateRef: {{ name: dev }}, description: x }} }} }}"
    )
}

type Scenario = fn(&mut World) -> BoxFuture<'_, Vec<String>>;

/// Runs a scenario without faults, then once for each write and each kind of fault; every end must be the same.
async fn prove(scenario: Scenario) {
    let plane = plane().await;
    let mut world = World::on(Arc::clone(&plane), "without-faults", None).await;
    let expected = scenario(&mut world).await;
    let writes = world.faults.writes();
    assert!(writes > 0, "a scenario without writes proves nothing");
    for at in 1..=writes {
        for kind in KINDS {
            let fault = Fault { at, kind };
            let namespace = format!("run-{at}-{kind:?}").to_lowercase();
            let mut world = World::on(Arc::clone(&plane), &namespace, Some(fault)).await;
            let end = scenario(&mut world).await;
            assert_eq!(end, expected, "with {fault:?}");
        }
    }
}

#[tokio::test]
async fn tasks_run_once_and_are_let_go() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("")).await;
            world.create(&task("a", "")).await;
            world.create(&task("b", "")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_failing_pod_fails_its_task() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("executorImage: broken")).await;
            world.create(&task("a", "")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn one_slot_is_never_held_twice_and_goes_round_in_order() {
    prove(|world| {
        Box::pin(async move {
            world.invariants.push(one_at_a_time);
            world.create(&template("maxConcurrentTasks: 1")).await;
            for name in ["a", "b", "c"] {
                world.create(&task(name, "")).await;
            }
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_quota_is_kept_and_nothing_waits_for_ever() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("quota: { maxTaskStarts: 2, windowSeconds: 60 }")).await;
            for name in ["a", "b", "c", "d", "e"] {
                world.create(&task(name, "")).await;
            }
            world.until(HOUR, all_over).await;
            let tasks = world.tasks().await;
            assert!(!exceeds(&starts(&tasks), 2, SignedDuration::from_secs(60)), "{:?}", starts(&tasks));
            summary(&tasks)
        })
    })
    .await;
}

#[tokio::test]
async fn a_stopped_task_is_completed_and_its_slot_free() {
    prove(|world| {
        Box::pin(async move {
            world.invariants.push(one_at_a_time);
            world.create(&template("executorImage: forever, maxConcurrentTasks: 1")).await;
            world.create(&task("a", "")).await;
            world.create(&task("b", "")).await;
            world.pass(Duration::from_secs(1)).await;
            world.annotate::<Task>("a", "kubeopencode.io/stop").await;
            world.pass(Duration::from_mins(3)).await;
            world.annotate::<Task>("b", "kubeopencode.io/stop").await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_task_stopped_in_the_queue_never_starts() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("executorImage: forever, maxConcurrentTasks: 1")).await;
            world.create(&task("a", ", timeout: 10m")).await;
            world.create(&task("b", "")).await;
            world.pass(Duration::from_secs(1)).await;
            world.annotate::<Task>("b", "kubeopencode.io/stop").await;
            world.until(HOUR, all_over).await;
            let tasks = world.tasks().await;
            assert_eq!(starts(&tasks).len(), 1, "only a has started");
            summary(&tasks)
        })
    })
    .await;
}

#[tokio::test]
async fn a_timeout_ends_a_task() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("executorImage: forever")).await;
            world.create(&task("a", ", timeout: 90s")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_lost_pod_fails_its_task_and_frees_its_slot() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("executorImage: forever, maxConcurrentTasks: 1")).await;
            world.create(&task("a", "")).await;
            world.create(&task("b", ", timeout: 1m")).await;
            world.pass(Duration::from_mins(1)).await;
            world.api::<Pod>().delete("a-pod", &DeleteParams::default()).await.unwrap();
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_missing_template_is_waited_for() {
    prove(|world| {
        Box::pin(async move {
            world.create(&task("a", "")).await;
            world.pass(Duration::from_secs(3)).await;
            world.create(&template("")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

#[tokio::test]
async fn a_missing_template_fails_the_task_in_the_end() {
    prove(|world| {
        Box::pin(async move {
            world.create(&task("a", "")).await;
            world.until(HOUR, all_over).await;
            summary(&world.tasks().await)
        })
    })
    .await;
}

/// How the schedule stands: runs, and whether anything is left undone.
async fn ledger(world: &World) -> Vec<String> {
    let cron = world.api::<CronTask>().get("c").await.unwrap();
    let status = cron.status.unwrap_or_default();
    let tasks = world.tasks().await;
    let mut lines = summary(&tasks);
    // Names hold the time of the run, which differs from run to run.
    for line in &mut lines {
        *line = line.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    }
    lines.push(format!("{} runs, {} tasks, pending {:?}", status.total_executions, tasks.len(), status.pending_task));
    let mut names: Vec<String> = tasks.iter().map(Task::name_any).collect();
    names.dedup();
    assert_eq!(names.len(), tasks.len());
    lines
}

#[tokio::test]
async fn every_instant_has_one_task() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("")).await;
            world.create(&cron("Forbid", "")).await;
            world.pass(Duration::from_hours(3)).await;
            world.pass(Duration::from_mins(1)).await;
            ledger(world).await
        })
    })
    .await;
}

#[tokio::test]
async fn replacing_stops_the_task_before() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("executorImage: forever")).await;
            world.create(&cron("Replace", "")).await;
            world.pass(Duration::from_hours(2)).await;
            world.pass(Duration::from_mins(5)).await;
            ledger(world).await
        })
    })
    .await;
}

#[tokio::test]
async fn a_trigger_makes_exactly_one_task() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("")).await;
            world.create(&cron("Forbid", ", suspend: true")).await;
            world.pass(Duration::from_secs(1)).await;
            world.annotate::<CronTask>("c", "kubeopencode.io/trigger").await;
            world.pass(Duration::from_mins(2)).await;
            ledger(world).await
        })
    })
    .await;
}

#[tokio::test]
async fn as_many_tasks_as_are_retained_block_the_schedule() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("")).await;
            world.create(&cron("Allow", ", maxRetainedTasks: 1")).await;
            world.pass(Duration::from_hours(3)).await;
            ledger(world).await
        })
    })
    .await;
}

#[tokio::test]
async fn a_deleted_task_takes_its_instant_with_it() {
    prove(|world| {
        Box::pin(async move {
            world.create(&template("")).await;
            world.create(&cron("Forbid", "")).await;
            world.pass(Duration::from_hours(1)).await;
            world.pass(Duration::from_mins(1)).await;
            let name = world.tasks().await[0].name_any();
            world.api::<Task>().delete(&name, &DeleteParams::default()).await.unwrap();
            world.pass(Duration::from_mins(5)).await;
            assert_eq!(world.tasks().await.len(), 0, "its instant is settled: it does not come back");
            ledger(world).await
        })
    })
    .await;
}

#[tokio::test]
async fn a_long_outage_costs_one_run_and_wedges_nothing() {
    let mut world = World::new().await;
    world.create(&template("")).await;
    world.create(&cron("Forbid", "").replace("0 * * * *", "* * * * *")).await;
    world.pass(Duration::from_secs(1)).await;
    world.clock.advance(Duration::from_hours(24 * 30));
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.tasks().await.len(), 1, "one run for all that was missed");
    world.pass(Duration::from_mins(2)).await;
    assert_eq!(world.tasks().await.len(), 3, "and the schedule goes on");
}
