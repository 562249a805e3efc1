//! Scenarios, each run in calm weather, then with a fault at every write, then in storms; every end is the same.

use std::sync::Arc;
use std::time::Duration;

use api::kubeopencode::{Agent, CronTask};
use engine::Clock as _;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::DeleteParams;
use rstest::rstest;
use serde_json::json;
use testkit::faults::{Fault, KINDS};

use crate::world::{Install, Weather, World, all_over, controllers, exceeds, plane, starts, summary};

const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: kubeopencode.io/v1alpha1\nkind: {kind}\nmetadata: {{ name: {name} }}\nspec: {{ {spec} }}")
}

pub fn template(extra: &str) -> String {
    object(
        "AgentTemplate",
        "dev",
        &format!("workspaceDir: /workspace, serviceAccountName: sa, command: [work], {extra}"),
    )
}

fn agent(extra: &str) -> String {
    object("Agent", "dev", &format!("workspaceDir: /workspace, serviceAccountName: sa, {extra}"))
}

pub fn task(name: &str, extra: &str) -> String {
    object("Task", name, &format!("templateRef: {{ name: dev }}, description: x, {extra}"))
}

fn task_for_agent(name: &str) -> String {
    object("Task", name, "agentRef: { name: dev }, description: x")
}

/// A schedule that comes once an hour, for the first time in half an hour.
fn hourly(world: &World) -> String {
    let first = world.clock.now() + 30 * MINUTE;
    format!("{} * * * *", first.as_second() / 60 % 60)
}

pub fn cron(schedule: &str, policy: &str, extra: &str) -> String {
    let task = "taskTemplate: { spec: { templateRef: { name: dev }, description: x } }";
    object("CronTask", "c", &format!("schedule: '{schedule}', concurrencyPolicy: {policy}, {extra} {task}"))
}

pub type Scenario = fn(&mut World) -> BoxFuture<'_, Vec<String>>;

/// How much a scenario goes through: of the faults (every kind at every write) every how manieth, and how many storms of each
/// kind. Optimised, a run takes a twentieth of the time: `make test` goes through all of it there (`scripts/faults`), and a plain
/// `cargo test` through a sample.
pub fn thoroughness() -> (usize, u64) {
    if let Ok(seeds) = std::env::var("ORRERY_SEEDS") {
        return (1, seeds.parse().expect("ORRERY_SEEDS is a number"));
    }
    match std::env::var_os("ORRERY_TEST_LONG") {
        Some(_) => (1, 300),
        None if cfg!(debug_assertions) => (16, 1),
        None => (1, 10),
    }
}

/// Whether a run is asked for: `ORRERY_WEATHER='Stale(5)'` repeats one, `ORRERY_WEATHER=Stale` a kind.
fn is_asked_for(weather: Weather) -> bool {
    std::env::var("ORRERY_WEATHER").map_or(true, |asked| format!("{weather:?}").starts_with(&asked))
}

/// What a scenario went through.
pub struct Proof {
    /// Writes that the controllers make when nothing goes wrong.
    writes: usize,
    /// Runs in all.
    runs: usize,
}

impl Proof {
    /// Leaves the numbers where `scripts/faults` collects them.
    pub fn publish(&self) {
        let Some(folder) = std::env::var_os("ORRERY_FAULTS") else { return };
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let name = test.rsplit("::").next().unwrap_or_default();
        let sentence = name.splitn(3, '_').nth(2).unwrap_or(name).replace('_', " ");
        let line = format!("| {sentence} | {} | {} |\n", self.writes, self.runs);
        std::fs::write(std::path::Path::new(&folder).join(name), line).unwrap();
    }
}

/// Runs a scenario in calm weather, then once for each write and each kind of fault, then in storms.
pub async fn prove(scenario: Scenario, install: Install, thoroughness: (usize, u64)) -> Result<Proof, String> {
    prove_against(scenario, controllers, install, thoroughness).await
}

/// The same, where the controllers that are right are others than the usual.
pub async fn prove_against(
    scenario: Scenario,
    right: Install,
    install: Install,
    (every, seeds): (usize, u64),
) -> Result<Proof, String> {
    let plane = plane().await;
    let mut world = World::on(Arc::clone(&plane), "calm", Weather::Calm, right).await;
    let expected = scenario(&mut world).await;
    let writes = world.writes();
    assert!(writes > 0, "a scenario without writes proves nothing");
    let faults = (1..=writes).flat_map(|at| KINDS.map(|kind| Fault { at, kind }));
    let faults = faults.enumerate().filter(|(index, _)| index % every == 0).map(|(_, fault)| Weather::At(fault));
    let storms = (0..seeds)
        .flat_map(|seed| [Weather::Late(seed), Weather::Stale(seed), Weather::Leaders(seed), Weather::Storm(seed)]);
    let mut runs = 0;
    for weather in [Weather::Calm].into_iter().chain(faults).chain(storms).filter(|weather| is_asked_for(*weather)) {
        let mut world = World::on(Arc::clone(&plane), &format!("run-{runs}"), weather, install).await;
        let end = scenario(&mut world).await;
        if end != expected {
            return Err(format!("in {weather:?}: {end:#?}\nin calm weather: {expected:#?}"));
        }
        runs += 1;
    }
    Ok(Proof { writes, runs })
}

#[rstest]
#[case::tasks_run_once_and_are_let_go(tasks_run_once)]
#[case::a_failing_pod_fails_its_task(a_failing_pod)]
#[case::one_slot_is_never_held_twice(one_slot)]
#[case::a_quota_is_kept_and_nothing_waits_for_ever(a_quota)]
#[case::a_stopped_task_frees_its_slot(a_stop)]
#[case::a_task_stopped_in_the_queue_never_starts(a_stop_in_the_queue)]
#[case::a_timeout_ends_a_task(a_timeout)]
#[case::a_lost_pod_fails_its_task_and_frees_its_slot(a_lost_pod)]
#[case::a_deleted_task_takes_its_pod_along_and_frees_its_slot(a_deleted_task)]
#[case::a_missing_template_is_waited_for(a_late_template)]
#[case::a_missing_template_fails_the_task_in_the_end(no_template)]
#[case::an_agent_is_built_and_serves_its_tasks_in_turn(an_agent)]
#[case::a_suspended_agent_holds_its_tasks_until_it_is_resumed(a_suspended_agent)]
#[case::an_agent_follows_its_template(a_template_change)]
#[case::a_change_of_the_config_reaches_agents_and_old_tasks(a_config_change)]
#[case::a_sleeping_agent_is_woken_by_a_task(standby)]
#[case::every_instant_has_one_task(every_instant)]
#[case::replacing_stops_the_task_before(replacing)]
#[case::a_trigger_makes_exactly_one_task(a_trigger)]
#[case::as_many_tasks_as_are_retained_block_the_schedule(retained)]
#[case::a_scheduled_task_that_is_deleted_does_not_come_back(a_deleted_instant)]
#[case::a_long_outage_costs_one_run_and_wedges_nothing(a_long_outage)]
#[tokio::test]
async fn the_end_is_the_same_in_any_weather(#[case] scenario: Scenario) {
    prove(scenario, controllers, thoroughness()).await.unwrap().publish();
}

pub fn tasks_run_once(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.hasty = true;
        world.create(&template("")).await;
        world.create(&task("a", "")).await;
        world.create(&task("b", "")).await;
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

fn a_failing_pod(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("executorImage: broken")).await;
        world.create(&task("a", "")).await;
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

pub fn one_slot(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.at_most(1);
        world.create(&template("maxConcurrentTasks: 1")).await;
        for name in ["a", "b", "c"] {
            world.create(&task(name, "")).await;
        }
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

pub fn a_quota(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("quota: { maxTaskStarts: 2, windowSeconds: 60 }")).await;
        for name in ["a", "b", "c", "d", "e"] {
            world.create(&task(name, "")).await;
        }
        world.until(HOUR, all_over).await;
        let tasks = world.tasks();
        assert!(!exceeds(&starts(&tasks), 2, SignedDuration::from_secs(60)), "{:?}", starts(&tasks));
        summary(&tasks)
    })
}

/// A Task that is there before any other, for stories that go on with who was first. The weather may hide a new Task from
/// the queue while it shows a younger one, which no watch of the API does; then the younger one is rightly first. That a
/// queue keeps the order of those it knows is checked after every step (`World::check`).
async fn first(world: &mut World, name: &str, extra: &str) {
    world.create(&task(name, extra)).await;
    world.pass(SECOND).await;
}

fn a_stop(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.at_most(1);
        world.create(&template("executorImage: forever, maxConcurrentTasks: 1")).await;
        first(world, "a", "").await;
        world.create(&task("b", "")).await;
        world.pass(20 * MINUTE).await;
        world.annotate("Task", "a", "kubeopencode.io/stop").await;
        world.pass(20 * MINUTE).await;
        world.annotate("Task", "b", "kubeopencode.io/stop").await;
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

fn a_stop_in_the_queue(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("executorImage: forever, maxConcurrentTasks: 1")).await;
        first(world, "a", "timeout: 50m").await;
        world.create(&task("b", "")).await;
        world.pass(20 * MINUTE).await;
        world.annotate("Task", "b", "kubeopencode.io/stop").await;
        world.until(HOUR, all_over).await;
        let tasks = world.tasks();
        assert_eq!(starts(&tasks).len(), 1, "only a has started");
        summary(&tasks)
    })
}

fn a_timeout(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("executorImage: forever")).await;
        world.create(&task("a", "timeout: 90s")).await;
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

fn a_lost_pod(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.at_most(1);
        world.create(&template("executorImage: forever, maxConcurrentTasks: 1")).await;
        world.create(&task("a", "")).await;
        world.create(&task("b", "timeout: 1m")).await;
        world.pass(20 * MINUTE).await;
        world.api::<k8s_openapi::api::core::v1::Pod>().delete("a-pod", &DeleteParams::default()).await.unwrap();
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

fn a_deleted_task(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("executorImage: forever, maxConcurrentTasks: 1")).await;
        world.create(&task("a", "")).await;
        world.create(&task("b", "timeout: 1m")).await;
        world.pass(20 * MINUTE).await;
        world.delete("Task", "a").await;
        world.until(HOUR, |world| all_over(world) && world.pods().iter().all(|pod| pod.name_any() == "b-pod")).await;
        summary(&world.tasks())
    })
}

fn a_late_template(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&task("a", "")).await;
        world.pass(3 * SECOND).await;
        world.create(&template("")).await;
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

fn no_template(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&task("a", "")).await;
        world.until(HOUR, all_over).await;
        summary(&world.tasks())
    })
}

/// How an Agent stands.
async fn stand(world: &World) -> Vec<String> {
    let agent = world.api::<Agent>().get("dev").await.unwrap();
    let status = agent.status.unwrap_or_default();
    let mut lines: Vec<String> =
        status.conditions.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect();
    lines.push(format!("ready {} suspended {} active {}", status.ready, status.suspended, status.active_tasks.len()));
    lines.extend(summary(&world.tasks()));
    lines
}

fn an_agent(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.at_most(1);
        world.create(&agent("maxConcurrentTasks: 1, persistence: { sessions: { size: 1Gi } }")).await;
        world.create(&task_for_agent("a")).await;
        world.create(&task_for_agent("b")).await;
        world.until(HOUR, all_over).await;
        stand(world).await
    })
}

fn a_suspended_agent(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&agent("suspend: true")).await;
        world.create(&task_for_agent("a")).await;
        world.pass(MINUTE).await;
        assert!(starts(&world.tasks()).is_empty(), "nothing starts on a suspended Agent");
        world.change("Agent", "dev", json!({ "spec": { "suspend": false } })).await;
        world.until(HOUR, all_over).await;
        stand(world).await
    })
}

fn a_template_change(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("")).await;
        world.create(&object("Agent", "dev", "templateRef: { name: dev }")).await;
        world.pass(MINUTE).await;
        world.change("AgentTemplate", "dev", json!({ "spec": { "executorImage": "newer" } })).await;
        world.pass(MINUTE).await;
        let deployments = world.api::<k8s_openapi::api::apps::v1::Deployment>();
        let deployment = deployments.get("dev-server").await.unwrap();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        let mut lines = stand(world).await;
        lines.extend(pod.containers.iter().map(|container| format!("{:?}", container.image)));
        lines
    })
}

fn a_config_change(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(follow_config(world, MINUTE))
}

/// A proxy that comes and goes, and a cleanup that comes when there is something to clean, each within `patience`.
async fn follow_config(world: &mut World, patience: Duration) -> Vec<String> {
    async fn proxies(world: &World) -> usize {
        let deployments = world.api::<k8s_openapi::api::apps::v1::Deployment>();
        let pod = deployments.get("dev-server").await.unwrap().spec.unwrap().template.spec.unwrap();
        let all = pod.containers.iter().flat_map(|container| container.env.iter().flatten());
        all.filter(|variable| variable.name == "HTTP_PROXY").count()
    }
    world.create(&agent("")).await;
    world.create(&task_for_agent("a")).await;
    world.until(HOUR, all_over).await;
    let mut lines = vec![format!("{} proxies, {} tasks", proxies(world).await, world.tasks().len())];
    let proxy = json!({ "httpProxy": "http://proxy.example:3128" });
    world.create(&object("KubeOpenCodeConfig", "cluster", &format!("proxy: {proxy}"))).await;
    world.pass(patience).await;
    lines.push(format!("{} proxies, {} tasks", proxies(world).await, world.tasks().len()));
    let cleanup = json!({ "spec": { "cleanup": { "ttlSecondsAfterFinished": 0 } } });
    world.change("KubeOpenCodeConfig", "cluster", cleanup).await;
    world.pass(patience).await;
    lines.push(format!("{} proxies, {} tasks", proxies(world).await, world.tasks().len()));
    world.delete("KubeOpenCodeConfig", "cluster").await;
    world.pass(patience).await;
    lines.push(format!("{} proxies, {} tasks", proxies(world).await, world.tasks().len()));
    lines
}

#[tokio::test]
async fn a_change_of_the_config_takes_effect_at_once() {
    let mut world = World::on(plane().await, "calm", Weather::Calm, controllers).await;
    let lines = follow_config(&mut world, SECOND).await;
    assert_eq!(lines, ["0 proxies, 1 tasks", "1 proxies, 1 tasks", "1 proxies, 0 tasks", "0 proxies, 0 tasks"]);
}

fn standby(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&agent("standby: { idleTimeout: 10m }")).await;
        world.pass(20 * MINUTE).await;
        let mut lines = stand(world).await;
        world.create(&task_for_agent("a")).await;
        world.until(HOUR, all_over).await;
        lines.extend(summary(&world.tasks()));
        world.pass(20 * MINUTE).await;
        lines.extend(stand(world).await);
        lines
    })
}

/// How the schedule stands: runs, and whether anything is left undone.
async fn ledger(world: &World) -> Vec<String> {
    let cron = world.api::<CronTask>().get("c").await.unwrap();
    let status = cron.status.unwrap_or_default();
    let tasks = world.tasks();
    // Names hold the time of the run, which differs from run to run.
    let nameless = |line: &String| line.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let mut lines: Vec<String> = summary(&tasks).iter().map(nameless).collect();
    lines.push(format!("{} runs, {} tasks, pending {:?}", status.total_executions, tasks.len(), status.pending_task));
    lines
}

pub fn every_instant(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("")).await;
        world.create(&cron(&hourly(world), "Forbid", "")).await;
        world.pass(2 * HOUR).await;
        ledger(world).await
    })
}

fn replacing(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("executorImage: forever")).await;
        world.create(&cron("0 0 1 1 *", "Replace", "suspend: true,")).await;
        for _ in 0..2 {
            world.annotate("CronTask", "c", "kubeopencode.io/trigger").await;
            world.pass(20 * MINUTE).await;
        }
        ledger(world).await
    })
}

fn a_trigger(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("")).await;
        world.create(&cron("0 0 1 1 *", "Forbid", "suspend: true,")).await;
        world.pass(SECOND).await;
        world.annotate("CronTask", "c", "kubeopencode.io/trigger").await;
        world.pass(20 * MINUTE).await;
        ledger(world).await
    })
}

fn retained(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("")).await;
        world.create(&cron(&hourly(world), "Allow", "maxRetainedTasks: 1,")).await;
        world.pass(2 * HOUR).await;
        ledger(world).await
    })
}

pub fn a_deleted_instant(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.hasty = true;
        world.create(&template("")).await;
        world.create(&cron("0 0 1 1 *", "Forbid", "suspend: true,")).await;
        world.annotate("CronTask", "c", "kubeopencode.io/trigger").await;
        world.pass(20 * MINUTE).await;
        assert_eq!(world.tasks().len(), 0, "its instant is settled: it does not come back");
        ledger(world).await
    })
}

pub fn a_long_outage(world: &mut World) -> BoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        world.create(&template("")).await;
        world.create(&cron("* * * * *", "Forbid", "")).await;
        world.pass(SECOND).await;
        let before = world.tasks().len();
        world.clock.advance(Duration::from_hours(24 * 30));
        world.until(10 * MINUTE, |world| world.tasks().len() > before).await;
        let after = world.tasks().len();
        world.until(30 * MINUTE, |world| world.tasks().len() > after).await;
        vec![format!("{} run for all that was missed", after - before)]
    })
}
