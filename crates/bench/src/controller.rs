//! `orrery controller` by itself, against a plane in another process: its memory, its writes, and an overload within a limit.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use tokio::sync::mpsc;

use crate::report::{Number, Row, Section, Target};
use crate::stage::{Followed, GROUP, Limit, PATIENCE, Stage, succeed, task};
use crate::{Arguments, machine, process};

const TASKS: usize = 1000;
const NAMESPACES: usize = 51;
const EACH: usize = 100;
const LIMIT: u64 = 128 << 20;
/// When nothing has happened for so long, nothing will.
const QUIET: Duration = Duration::from_mins(1);

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[
    ("Resident memory, idle", Some(Target::AtMost(Number::Size(15_000_000)))),
    ("Resident memory, 1,000 Tasks running", Some(Target::AtMost(Number::Size(32_000_000)))),
    ("5,100 Tasks in 51 namespaces, within 128 MiB: not finished", Some(Target::AtMost(Number::Count(0.0)))),
    ("… until all had finished", None),
    ("… most memory of its control group", Some(Target::AtMost(Number::Size(LIMIT)))),
    ("… API writes for each Task, Events aside", Some(Target::AtMost(Number::Count(5.0)))),
];

/// Measures and takes the medians of the rounds.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let orrery = arguments.orrery()?;
    let facts = machine::facts(&arguments.data)?;
    let rounds = arguments.rounds(|| measure(&orrery, &arguments.data))?;
    let now = jiff::Timestamp::now().strftime("%F");
    let introduction = format!(
        "`make bench`, {now}. {facts}\n\n`orrery controller` in a process of its own talks to an `orrery up` without \
         controllers, over TLS; {} rounds, medians. Memory is resident memory, pages of the program's file among it. The limit \
         is a control group's: the kernel kills what needs more. Pods are not run: they are bound to a second Node object \
         whose kubelet is this program, which says that each has ended well as soon as it is there. Writes are counted by the \
         controller's own metrics.",
        arguments.rounds
    );
    Ok(Section { title: "The controllers by themselves", introduction, rows: Row::of(ROWS, &rounds)? })
}

async fn measure(orrery: &Path, data: &Path) -> Result<Vec<Number>> {
    let (idle, full) = memory(orrery, data).await?;
    let overload = overload(orrery, data).await?;
    Ok([Number::Size(idle), Number::Size(full)].into_iter().chain(overload).collect())
}

async fn memory(orrery: &Path, data: &Path) -> Result<(u64, u64)> {
    let mut stage = Stage::start(orrery, data, &["--without-controllers"]).await?;
    let controllers = stage.controller(None).await?;
    // What a start leaves to do in the background is not idle.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = process::resident(&[controllers.process()])?;
    stage.template("default", "plain", json!({})).await?;
    let mut pods = stage.follow("/api/v1/namespaces/default/pods").await?;
    stage.create_all((0..TASKS).map(|number| task("default", &format!("task-{number}"), "plain")).collect()).await?;
    for _ in 0..TASKS {
        pods.added().await?;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok((idle, process::resident(&[controllers.process()])?))
}

async fn overload(orrery: &Path, data: &Path) -> Result<[Number; 4]> {
    let mut stage = Stage::start(orrery, data, &["--without-controllers"]).await?;
    let limit = Limit::of(LIMIT)?;
    let mut controllers = stage.controller(Some(&limit)).await?;
    let mut tasks = Vec::new();
    for number in 0..NAMESPACES {
        let namespace = format!("team-{number}");
        let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        stage.connection.create("/api/v1/namespaces", space.to_string().into()).await?;
        stage.template(&namespace, "plain", json!({})).await?;
        tasks.extend((0..EACH).map(|number| task(&namespace, &format!("task-{number}"), "plain")));
    }
    let before = controllers.writes().await?;
    let pods = stage.follow("/api/v1/pods").await?;
    let kubelet = tokio::spawn(kubelet(pods, stage.connection.again().await?));
    let mut ends = stage.follow(&format!("{GROUP}/tasks")).await?;
    let start = Instant::now();
    let all = tasks.len();
    let finished = tokio::spawn(async move {
        let mut finished = BTreeSet::new();
        while finished.len() < all && start.elapsed() < PATIENCE {
            let Ok(news) = tokio::time::timeout(QUIET, ends.next()).await else { break };
            let object = news?.object;
            if object.phase() == "Completed" {
                finished.insert((object.metadata.namespace, object.metadata.name));
            }
        }
        anyhow::Ok((finished.len(), start.elapsed()))
    });
    stage.create_all(tasks).await?;
    let (finished, took) = finished.await??;
    kubelet.abort();
    controllers.check()?;
    // The last finalizers are dropped after the last end is recorded.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let writes = controllers.writes().await? - before;
    let peak = limit.peak()?;
    drop(controllers);
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    let (each, left) = (writes as f64 / all as f64, (all - finished) as f64);
    Ok([Number::Count(left), Number::Time(took), Number::Size(peak), Number::Count(each)])
}

/// Lets every Pod that appears end well.
async fn kubelet(mut pods: Followed, connection: testkit::https::Connection) -> Result<()> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let ending = async {
        let mut connection = connection;
        while let Some((namespace, name)) = receiver.recv().await {
            let namespace: String = namespace;
            let name: String = name;
            succeed(&mut connection, &namespace, &name).await?;
        }
        anyhow::Ok(())
    };
    let hearing = async {
        loop {
            let pod = pods.added().await?.metadata;
            if sender.send((pod.namespace, pod.name)).is_err() {
                return anyhow::Ok(());
            }
        }
    };
    tokio::try_join!(ending, hearing).map(drop)
}
