//! What Tasks cost and in which order they come: counted, not timed.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

use crate::scenarios::{cron, task, template};
use crate::world::{Weather, World, all_over, controllers, plane};

const HOUR: Duration = Duration::from_hours(1);
const TASKS: usize = 20;

async fn calm() -> World {
    World::on(Arc::clone(&plane().await), "calm", Weather::Calm, controllers).await
}

#[tokio::test]
async fn a_task_costs_five_writes_beside_events() {
    let mut world = calm().await;
    world.create(&template("")).await;
    world.pass(Duration::from_secs(1)).await;
    let before = world.writes();
    for number in 0..TASKS {
        world.create(&task(&format!("t{number}"), "")).await;
    }
    world.until(HOUR, all_over).await;
    // That it runs, its ConfigMap, its Pod, its end, and that the Pod may go.
    assert_eq!(world.writes() - before, 5 * TASKS);
}

#[tokio::test]
async fn free_slots_are_taken_in_the_order_of_creation() {
    let mut world = calm().await;
    world.create(&template("maxConcurrentTasks: 2")).await;
    // Not the order of their names, and all within a second or two.
    let names: Vec<String> = (0..TASKS).map(|number| format!("t{}", number * 7 % TASKS)).collect();
    for name in &names {
        world.create(&task(name, "")).await;
    }
    world.at_most(2);
    world.until(HOUR, all_over).await;
    let mut pods = world.pods();
    // Their uids grow with time on this plane.
    pods.sort_by_key(|pod| pod.uid());
    let order: Vec<String> = pods.iter().map(|pod| pod.name_any().trim_end_matches("-pod").to_owned()).collect();
    assert_eq!(order, names);
}

#[tokio::test]
async fn a_scheduled_task_does_not_pass_one_that_is_older() {
    let mut world = calm().await;
    world.create(&template("maxConcurrentTasks: 1")).await;
    world.create(&cron("0 0 1 1 *", "Forbid", "suspend: true,")).await;
    world.pass(Duration::from_secs(1)).await;
    world.annotate("CronTask", "c", "kubeopencode.io/trigger").await;
    world.tell().await;
    // The process has not heard of this one when it makes its own, which it knows at once.
    world.create(&task("first", "")).await;
    world.until(HOUR, |world| world.pods().len() == 2 && all_over(world)).await;
    let mut pods = world.pods();
    pods.sort_by_key(|pod| pod.uid());
    assert_eq!(pods[0].name_any(), "first-pod");
}
