//! Tasks on the embedded plane: how soon one has its Pod, how soon a free slot is used and by whom, and a thousand at once.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::report::{Number, Row, Section, Target, quantile};
use crate::stage::{Stage, task};
use crate::{Arguments, machine};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Tasks created one after the other.
const ALONE: usize = 200;
/// Slots that are freed one after the other.
const FREED: usize = 200;
const SLOTS: usize = 4;
/// Tasks created at once.
const TOGETHER: usize = 1000;

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[
    ("One Task created → its Pod created, p50", Some(at_most(Duration::from_millis(10)))),
    ("… p99", None),
    ("Slot freed → Pod of the next in line created, p50", None),
    ("… p99", Some(at_most(Duration::from_millis(100)))),
    ("… not in the order of creation, of 200", Some(Target::AtMost(Number::Count(0.0)))),
    ("1,000 Tasks created at once → every Pod created", Some(at_most(Duration::from_secs(5)))),
];

const fn at_most(time: Duration) -> Target {
    Target::AtMost(Number::Time(time))
}

/// Measures and takes the medians of the rounds.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let orrery = arguments.orrery()?;
    let facts = machine::facts(&arguments.data)?;
    let rounds = arguments.rounds(|| measure(&orrery, &arguments.data))?;
    let now = jiff::Timestamp::now().strftime("%F");
    let introduction = format!(
        "`make bench`, {now}. {facts}\n\nEverything runs in one `orrery up`, with this client on the same cores; {} rounds, \
         medians. Tasks are of an AgentTemplate, each asks for a Pod of its own with the usual init containers. The Pods are \
         not run: they are bound to a second Node object whose kubelet is this program, which sets their phase. Times are \
         from sending the request until a watch has the Pod. For the slots, {FREED} Tasks wait behind a template with {SLOTS} \
         slots, and one Pod after the other ends.",
        arguments.rounds
    );
    Ok(Section { title: "Tasks", introduction, rows: Row::of(ROWS, &rounds)? })
}

async fn measure(orrery: &Path, data: &Path) -> Result<Vec<Number>> {
    let mut stage = Stage::start(orrery, data, &[]).await?;
    stage.template("default", "plain", json!({})).await?;
    stage.template("default", "slots", json!({ "maxConcurrentTasks": SLOTS })).await?;
    let mut alone = alone(&mut stage).await?;
    let (mut freed, astray) = slots(&mut stage).await?;
    let together = together(&mut stage).await?;
    Ok(vec![
        Number::Time(quantile(&mut alone, 0.5)),
        Number::Time(quantile(&mut alone, 0.99)),
        Number::Time(quantile(&mut freed, 0.5)),
        Number::Time(quantile(&mut freed, 0.99)),
        Number::Count(astray),
        Number::Time(together),
    ])
}

async fn alone(stage: &mut Stage) -> Result<Vec<Duration>> {
    let mut pods = stage.follow(PODS).await?;
    let mut times = Vec::new();
    for number in 0..ALONE {
        let name = format!("alone-{number}");
        let (path, body) = task("default", &name, "plain");
        let start = Instant::now();
        stage.connection.create(&path, body.into()).await?;
        let pod = pods.added().await?;
        times.push(start.elapsed());
        ensure!(pod.metadata.name == format!("{name}-pod"), "{} instead of the Pod of {name}", pod.metadata.name);
    }
    Ok(times)
}

/// How long each slot was free, and how many Pods came when it was another's turn.
async fn slots(stage: &mut Stage) -> Result<(Vec<Duration>, f64)> {
    let mut pods = stage.follow(PODS).await?;
    for number in 0..SLOTS + FREED {
        let (path, body) = task("default", &format!("slot-{number}"), "slots");
        stage.connection.create(&path, body.into()).await?;
    }
    let (mut running, mut order) = (VecDeque::new(), Vec::new());
    // The first ones start together.
    for _ in 0..SLOTS {
        running.push_back(pods.added().await?.metadata.name);
    }
    let mut times = Vec::new();
    for _ in 0..FREED {
        let ended = running.pop_front().context("nothing runs")?;
        let start = Instant::now();
        stage.succeed("default", &ended).await?;
        let pod = pods.added().await?.metadata.name;
        times.push(start.elapsed());
        order.push(pod.clone());
        running.push_back(pod);
    }
    let expected = (SLOTS..SLOTS + FREED).map(|number| format!("slot-{number}-pod"));
    let astray = expected.zip(&order).filter(|(expected, pod)| expected != *pod).count();
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    Ok((times, astray as f64))
}

async fn together(stage: &mut Stage) -> Result<Duration> {
    let mut pods = stage.follow(PODS).await?;
    let start = Instant::now();
    let seen = tokio::spawn(async move {
        for _ in 0..TOGETHER {
            pods.added().await?;
        }
        anyhow::Ok(Instant::now())
    });
    stage.create_all((0..TOGETHER).map(|number| task("default", &format!("many-{number}"), "plain")).collect()).await?;
    Ok(seen.await??.duration_since(start))
}
