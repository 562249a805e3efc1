//! CronTasks that are all due at the same minute: how late each Task is, and whether there is exactly one for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::report::{Number, Row, Section, Target, quantile};
use crate::stage::{Followed, GROUP, Stage};
use crate::{Arguments, machine};

const FEW: usize = 500;
const MANY: usize = 10_000;
/// So long before their minute the first CronTasks are created, and then so many in a second.
const AHEAD: Duration = Duration::from_secs(10);
const PER_SECOND: u32 = 250;

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[
    ("500 CronTasks due at once: lateness of their Tasks, p50", None),
    ("… p99", Some(Target::AtMost(Number::Time(Duration::from_millis(250))))),
    ("… lost or twice", Some(Target::AtMost(Number::Count(0.0)))),
    ("10,000 CronTasks due at once: lateness of their Tasks, p50", None),
    ("… of the last", Some(Target::AtMost(Number::Time(Duration::from_secs(5))))),
    ("… lost or twice", Some(Target::AtMost(Number::Count(0.0)))),
];

/// Measures and takes the medians of the rounds.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let orrery = arguments.orrery()?;
    let facts = machine::facts(&arguments.data)?;
    let rounds = arguments.rounds(|| measure(&orrery, &arguments.data))?;
    let now = Timestamp::now().strftime("%F");
    let introduction = format!(
        "`make bench`, {now}. {facts}\n\nEverything runs in one `orrery up`, with this client on the same cores; {} rounds, \
         medians. All CronTasks have the same schedule; a Task is late by the time from the full minute until a watch has it. \
         The Tasks name an Agent that is suspended, so that they queue and no Pods come in between.",
        arguments.rounds
    );
    Ok(Section { title: "Schedules", introduction, rows: Row::of(ROWS, &rounds)? })
}

async fn measure(orrery: &Path, data: &Path) -> Result<Vec<Number>> {
    let mut stage = Stage::start(orrery, data, &[]).await?;
    let mut numbers = Vec::new();
    for (namespace, count, share) in [("few", FEW, 0.99), ("many", MANY, 1.0)] {
        let (mut late, wrong) = due(&mut stage, namespace, count).await?;
        numbers.extend([
            Number::Time(quantile(&mut late, 0.5)),
            Number::Time(quantile(&mut late, share)),
            Number::Count(wrong),
        ]);
    }
    Ok(numbers)
}

/// How late each Task is, and how many are missing or too many.
async fn due(stage: &mut Stage, namespace: &str, count: usize) -> Result<(Vec<Duration>, f64)> {
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    stage.connection.create("/api/v1/namespaces", space.to_string().into()).await?;
    let kind = |plural: &str| format!("{GROUP}/namespaces/{namespace}/{plural}");
    let agent = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": { "name": "asleep" },
        "spec": { "serviceAccountName": "default", "suspend": true } });
    stage.connection.create(&kind("agents"), agent.to_string().into()).await?;

    // All of them must be known to the controller before their minute comes.
    let ready = Timestamp::now() + AHEAD + Duration::from_secs(count as u64) / PER_SECOND;
    let minute = ready.as_second().div_euclid(60) + 1;
    let instant = Timestamp::from_second(minute * 60)?;
    let cron = |number: usize| {
        let body = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "CronTask",
            "metadata": { "name": format!("c-{number}") },
            "spec": { "schedule": format!("{} * * * *", minute % 60), "taskTemplate": { "spec":
                { "agentRef": { "name": "asleep" }, "description": "Look for outdated dependencies." } } } });
        (kind("crontasks"), body.to_string())
    };
    let crons = stage.follow(&kind("crontasks")).await?;
    let settled = tokio::spawn(settled(crons, count));
    stage.create_all((0..count).map(cron).collect()).await?;
    settled.await??;
    ensure!(Timestamp::now() < instant, "the minute came before all CronTasks were ready");

    let tasks = stage.follow(&kind("tasks")).await?;
    let late = arrivals(tasks, count, instant).await?;
    // Whatever comes twice comes soon after.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let list: Value = serde_json::from_slice(&stage.connection.get(&kind("tasks")).await?)?;
    let mut each: BTreeMap<&str, usize> = BTreeMap::new();
    for task in list["items"].as_array().context("no list")? {
        let of = task["metadata"]["labels"]["kubeopencode.io/crontask"].as_str().unwrap_or_default();
        *each.entry(of).or_default() += 1;
    }
    let twice: usize = each.values().map(|tasks| tasks - 1).sum();
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    Ok((late, (count - each.len() + twice) as f64))
}

/// Waits until so many CronTasks say when they come next.
async fn settled(mut crons: Followed, count: usize) -> Result<()> {
    let mut settled = BTreeSet::new();
    while settled.len() < count {
        let object = crons.next().await?.object;
        if object.is_scheduled() {
            settled.insert(object.metadata.name);
        }
    }
    Ok(())
}

async fn arrivals(mut tasks: Followed, count: usize, instant: Timestamp) -> Result<Vec<Duration>> {
    let mut late = Vec::with_capacity(count);
    while late.len() < count {
        tasks.added().await?;
        let now = Timestamp::now();
        late.push(Duration::try_from(now.duration_since(instant)).context("a Task came before its time")?);
    }
    Ok(late)
}
