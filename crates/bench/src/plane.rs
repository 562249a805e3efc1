//! The embedded plane against kube-apiserver and etcd: durable creates, watch latency, lists, start, memory.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use testkit::https::Target as Server;

use crate::report::{Number, Row, Section, Target, quantile};
use crate::subject::{Running, Subject};
use crate::{Arguments, machine, process};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ALONE: usize = 1000;
const TOGETHER: usize = 6000;
const WORKERS: usize = 32;
const WATCHED: usize = 500;
const OBJECTS: usize = 10_000;
const LISTS: usize = 7;

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[
    ("Durable creates of 1.5 kB, 32 clients", Some(Target::Times(5.0))),
    ("… p50", None),
    ("… p99", None),
    ("… processor time of the server for 1,000", Some(Target::Times(5.0))),
    ("Durable creates of 1.5 kB, 1 client", None),
    ("… p50", Some(Target::Times(4.0))),
    ("… p99", None),
    ("… processor time of the server for 1,000", Some(Target::Times(5.0))),
    ("Write acknowledged → watch event, p99", Some(Target::AtMost(Number::Time(Duration::from_millis(5))))),
    ("Write sent → watch event, p50", None),
    ("… p99", Some(Target::AtMost(Number::Time(Duration::from_millis(5))))),
    ("List of 10,000 objects", Some(Target::Times(3.0))),
    ("Start to ready, nothing stored", Some(Target::AtMost(Number::Time(Duration::from_millis(200))))),
    ("Start to ready, 10,000 objects stored", Some(Target::AtMost(Number::Time(Duration::from_millis(200))))),
    ("Resident memory, idle", Some(Target::AtMost(Number::Size(60_000_000)))),
    ("Resident memory, 10,000 objects", Some(Target::AtMost(Number::Size(200_000_000)))),
];

/// Measures both sides in turn and takes the medians.
pub fn run(arguments: &Arguments) -> Result<Section> {
    let orrery = Subject::Orrery(arguments.orrery()?);
    let kubernetes =
        arguments.kubernetes.as_ref().filter(|path| !path.is_empty()).map(|path| Subject::Kubernetes(path.into()));
    let facts = machine::facts(&arguments.data)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        ours.push(runtime.block_on(measure(&orrery, &arguments.data)).context("orrery")?);
        if let Some(subject) = &kubernetes {
            theirs.push(runtime.block_on(measure(subject, &arguments.data)).context("kube-apiserver")?);
        }
    }
    let median =
        |rounds: &[Vec<Number>], index: usize| Number::median(rounds.iter().map(|round| round[index]).collect());
    let rows = ROWS.iter().enumerate().map(|(index, (name, target))| {
        let orrery = median(&ours, index).context("no round was measured")?;
        Ok(Row { name, orrery, kubernetes: median(&theirs, index), target: *target })
    });
    let now = jiff::Timestamp::now().strftime("%F");
    let introduction = format!(
        "`make bench`, {now}. {facts}\n\nBoth servers run on this machine with this client on the same cores, one after the \
         other, {} times; the table has the medians. The client speaks HTTP/1.1 over TLS, one connection for each worker. \
         Creates are ConfigMaps of 1.5 kB, each synced to disk before it is acknowledged. Memory is resident memory of the \
         server's processes (for Kubernetes kube-apiserver and etcd; for Orrery everything `orrery up` runs).",
        arguments.rounds
    );
    Ok(Section { title: "The embedded plane", introduction, rows: rows.collect::<Result<_>>()? })
}

/// One round on one server, from an empty directory.
async fn measure(subject: &Subject, data: &Path) -> Result<Vec<Number>> {
    let directory = tempfile::tempdir_in(data)?;
    let server = subject.start(directory.path()).await?;
    let fresh = server.start;
    // Whatever a start leaves to do in the background is not idle.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let idle = process::resident(&server.processes())?;

    let mut numbers = Vec::new();
    let alone = creates(&server, "alone", ALONE, 1).await?;
    let together = creates(&server, "together", TOGETHER, WORKERS).await?;
    numbers.extend(together);
    numbers.extend(alone);
    numbers.extend(watch(&server).await?);
    creates(&server, "more", OBJECTS - ALONE - TOGETHER - WATCHED, WORKERS).await?;
    numbers.push(list(&server.target).await?);
    let full = process::resident(&server.processes())?;
    drop(server);
    let server = subject.start(directory.path()).await?;
    numbers.extend([Number::Time(fresh), Number::Time(server.start), Number::Size(idle), Number::Size(full)]);
    Ok(numbers)
}

/// A ConfigMap of 1.5 kB.
fn config_map(name: &str) -> Bytes {
    let filling = "0123456789abcdef".repeat(87);
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"text":"{filling}"}}}}"#)
        .into()
}

/// Rate, p50, p99 and processor time for 1,000.
async fn creates(server: &Running, prefix: &str, count: usize, workers: usize) -> Result<[Number; 4]> {
    let processes = server.processes();
    let before = process::processor_time(&processes)?;
    let mut connections = Vec::new();
    for _ in 0..workers {
        connections.push(server.target.connect().await?);
    }
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (worker, mut connection) in connections.into_iter().enumerate() {
        let names: Vec<_> = (worker..count).step_by(workers).map(|number| format!("{prefix}-{number}")).collect();
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(names.len());
            for name in names {
                let body = config_map(&name);
                let start = Instant::now();
                connection.create(MAPS, body).await?;
                times.push(start.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::with_capacity(count);
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    let elapsed = begin.elapsed();
    let used = process::processor_time(&processes)?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let count = count as f64;
    Ok([
        Number::Rate(count / elapsed.as_secs_f64()),
        Number::Time(quantile(&mut times, 0.5)),
        Number::Time(quantile(&mut times, 0.99)),
        Number::Time(used.mul_f64(1000.0 / count)),
    ])
}

/// From the acknowledgement of a write, and from its sending, until a watch has it.
async fn watch(server: &Running) -> Result<[Number; 3]> {
    let list: serde_json::Value =
        serde_json::from_slice(&server.target.connect().await?.get(&format!("{MAPS}?limit=1")).await?)?;
    let version = list["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
    let path = format!("{MAPS}?watch=1&resourceVersion={version}");
    let mut lines = server.target.connect().await?.watch(&path).await?;
    let follower = tokio::spawn(async move {
        let mut arrivals = Vec::with_capacity(WATCHED);
        while arrivals.len() < WATCHED {
            let line = lines.next().await?;
            let now = Instant::now();
            ensure!(line.starts_with(b"{\"type\":\"ADDED\""), "{}", String::from_utf8_lossy(&line));
            arrivals.push(now);
        }
        Ok(arrivals)
    });
    let mut connection = server.target.connect().await?;
    let mut writes = Vec::with_capacity(WATCHED);
    for number in 0..WATCHED {
        let body = config_map(&format!("watched-{number}"));
        let sent = Instant::now();
        connection.create(MAPS, body).await?;
        writes.push((sent, Instant::now()));
    }
    let arrivals = follower.await??;
    let pairs = || writes.iter().zip(&arrivals);
    let mut from_sent: Vec<_> = pairs().map(|((sent, _), arrival)| arrival.duration_since(*sent)).collect();
    let mut from_answer: Vec<_> =
        pairs().map(|((_, answer), arrival)| arrival.saturating_duration_since(*answer)).collect();
    Ok([
        Number::Time(quantile(&mut from_answer, 0.99)),
        Number::Time(quantile(&mut from_sent, 0.5)),
        Number::Time(quantile(&mut from_sent, 0.99)),
    ])
}

/// A whole list, to the last byte.
async fn list(server: &Server) -> Result<Number> {
    let mut connection = server.connect().await?;
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let start = Instant::now();
        let body = connection.get(MAPS).await?;
        times.push(start.elapsed());
        ensure!(body.len() > OBJECTS * 1500, "a list of {} bytes", body.len());
    }
    Ok(Number::Time(quantile(&mut times, 0.5)))
}
