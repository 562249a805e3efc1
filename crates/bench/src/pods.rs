//! Pods on this machine: how soon they run, what they cost, how soon they are gone, what a Service adds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::https::{Connection, Lines};
use testkit::up::Up;

use crate::report::{Number, Row, Section, Target, quantile};
use crate::{Arguments, echo, machine, process};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
/// Pods started one after the other, and all there at the end.
const COUNT: usize = 195;
const PER_SECOND: u32 = 20;
/// Pods started before the first that counts.
/// With those that count they are as many as a plane takes.
const WARM_UP: usize = 5;
/// Pods freed one after the other.
const FREED: usize = 50;

/// What a row is called and what we want of it, in the order of [`measure`].
const ROWS: &[(&str, Option<Target>)] = &[
    ("Pod created → process running, 20 a second, p50", Some(at_most(Duration::from_millis(25)))),
    ("… p99", Some(at_most(Duration::from_millis(150)))),
    ("Pod created → watcher sees it running, p50", None),
    ("… p99", None),
    ("Our own memory for each of 200 Pods at once", Some(Target::AtMost(Number::Size(4_000_000)))),
    ("Pod deleted → processes, directory, control groups gone, p50", None),
    ("… p99", Some(at_most(Duration::from_millis(100)))),
    ("A Service adds to a question on an open connection, p50", Some(at_most(Duration::from_micros(200)))),
    ("A Service adds to a new connection with a question, p50", None),
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
        "`make bench`, {now}. {facts}\n\n{COUNT} Pods of the host image, each with its own namespaces, address and service \
         account token, are created at {PER_SECOND} a second and all run at once; {} rounds, medians. A Pod runs when its \
         command has written the time. Memory is the growth of `orrery up` (resident) and of the Pods' shims and keepers \
         (proportional: they are copies of one program). A Service's cost is measured between two Pods, with and without it \
         in the middle.",
        arguments.rounds
    );
    Ok(Section { title: "Pods", introduction, rows: Row::of(ROWS, &rounds)? })
}

async fn measure(orrery: &Path, data: &Path) -> Result<Vec<Number>> {
    let directory = tempfile::tempdir_in(data)?;
    let place = directory.path().canonicalize()?;
    let up = Up::start(orrery, &place).await?;
    let outcome = measure_on(&up, &place).await;
    drop(up);
    let down = std::process::Command::new(orrery).arg("down").arg("--data-dir").arg(&place).output()?;
    ensure!(down.status.success(), "orrery down: {}", String::from_utf8_lossy(&down.stderr));
    outcome
}

async fn measure_on(up: &Up, place: &Path) -> Result<Vec<Number>> {
    while !up.target.is_ready().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut cluster = Plane { connection: up.target.connect().await?, place: place.to_owned() };
    cluster.started("warm", WARM_UP).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = process::resident(&[up.process()])?;
    let mut starts = cluster.started("pod", COUNT).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let running = cluster.running().await?;
    ensure!(running == COUNT + WARM_UP, "{running} Pods run");
    let shims = processes_with(&format!("{}/node/pods/", place.display()))?;
    let shared: u64 = shims.iter().map(|process| process::proportional(*process)).sum::<Result<u64>>()?;
    let growth = process::resident(&[up.process()])?.saturating_sub(before);
    let own = growth / COUNT as u64 + shared / (COUNT + WARM_UP) as u64;
    let mut freed = cluster.freed("pod").await?;
    let service = cluster.service_cost().await?;
    Ok(vec![
        Number::Time(quantile(&mut starts.ran, 0.5)),
        Number::Time(quantile(&mut starts.ran, 0.99)),
        Number::Time(quantile(&mut starts.seen, 0.5)),
        Number::Time(quantile(&mut starts.seen, 0.99)),
        Number::Size(own),
        Number::Time(quantile(&mut freed, 0.5)),
        Number::Time(quantile(&mut freed, 0.99)),
        Number::Time(service.question),
        Number::Time(service.connection),
    ])
}

/// Processes of ours whose command line has this in it: around the Pods of a plane, around a Pod.
fn processes_with(mark: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(mark) {
            found.push(process);
        }
    }
    Ok(found)
}

struct Plane {
    connection: Connection,
    place: PathBuf,
}

#[derive(Default)]
struct Starts {
    ran: Vec<Duration>,
    seen: Vec<Duration>,
}

struct Cost {
    question: Duration,
    connection: Duration,
}

fn pod(name: &str, command: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "terminationGracePeriodSeconds": 1,
                  "containers": [{ "name": "main", "image": "host", "command": command }] },
    })
}

impl Plane {
    async fn get(&mut self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.connection.get(path).await?)?)
    }

    /// Watches Pods from now on, on a connection of its own.
    async fn watch(&mut self) -> Result<Lines> {
        let list = self.get(PODS).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        self.connection.again().await?.watch(&format!("{PODS}?watch=1&resourceVersion={version}")).await
    }

    async fn running(&mut self) -> Result<usize> {
        let list = self.get(PODS).await?;
        let items = list["items"].as_array().context("no list")?;
        Ok(items.iter().filter(|pod| pod["status"]["phase"] == "Running").count())
    }

    /// Starts Pods at the rate; each writes the time when it runs.
    async fn started(&mut self, name: &str, count: usize) -> Result<Starts> {
        let mut watch = self.watch().await?;
        let watching = tokio::spawn(async move {
            let mut seen = BTreeMap::new();
            while seen.len() < count {
                let event: Value = serde_json::from_slice(&watch.next().await?)?;
                if event["object"]["status"]["phase"] == "Running" {
                    let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    seen.entry(name).or_insert_with(SystemTime::now);
                }
            }
            anyhow::Ok(seen)
        });
        let mut sent = BTreeMap::new();
        let mut tick = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
        for number in 0..count {
            tick.tick().await;
            let name = format!("{name}-{number}");
            // In microseconds, by the shell itself: another program would count, too.
            let body = pod(&name, &["bash", "-c", "echo ${EPOCHREALTIME/[.,]/}; exec sleep 100000"]).to_string();
            sent.insert(name, SystemTime::now());
            self.connection.create(PODS, body.into()).await?;
        }
        let seen = tokio::time::timeout(Duration::from_mins(2), watching).await.context("not all Pods run")???;
        let mut starts = Starts::default();
        for (name, sent) in sent {
            starts.seen.push(seen[&name].duration_since(sent)?);
            let ran = self.said(&name).await?.trim().parse::<u64>()?;
            starts.ran.push((UNIX_EPOCH + Duration::from_micros(ran)).duration_since(sent)?);
        }
        Ok(starts)
    }

    /// What a Pod has said, when it has said something.
    async fn said(&mut self, name: &str) -> Result<String> {
        loop {
            let text = self.connection.get(&format!("{PODS}/{name}/log")).await;
            if let Some(text) = text.ok().filter(|text| text.ends_with(b"\n")) {
                return Ok(String::from_utf8(text.to_vec())?);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Deletes Pods; returns how long until nothing was left of each.
    async fn freed(&mut self, name: &str) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        for number in 0..FREED {
            let path = format!("{PODS}/{name}-{number}");
            let uid = self.get(&path).await?["metadata"]["uid"].as_str().context("no uid")?.to_owned();
            let directory = self.place.join("node/pods").join(&uid);
            let groups = groups_of(&uid);
            let shims = processes_with(&uid)?;
            ensure!(!shims.is_empty(), "{name}-{number} has no processes");
            let start = Instant::now();
            self.connection.delete(&path).await?;
            let is_left = || {
                directory.exists()
                    || shims.iter().any(|process| process::is_alive(*process))
                    || groups.iter().any(|group| group.exists())
            };
            while is_left() {
                ensure!(start.elapsed() < Duration::from_secs(30), "{name}-{number} is not freed");
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// One Pod that answers, one that asks it directly and through a Service.
    async fn service_cost(&mut self) -> Result<Cost> {
        let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "tools" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
        self.connection.create(CLAIMS, claim.to_string().into()).await?;
        let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "echo" },
            "spec": { "selector": { "app": "echo" }, "ports": [{ "port": echo::PORT }] } });
        self.connection.create(SERVICES, service.to_string().into()).await?;
        let wait = "until [ -x /tools/bench ]; do sleep 0.05; done; exec /tools/bench";
        self.connection.create(PODS, with_tools("echo", &format!("{wait} echo-server")).into()).await?;
        let address = self.until(&format!("{PODS}/echo"), "/status/podIP").await?;
        let claim = self.until(&format!("{CLAIMS}/tools"), "/metadata/uid").await?;
        let tools = self.place.join("node/claims").join(claim);
        while !tools.is_dir() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::fs::copy(std::env::current_exe()?, tools.join("bench.part"))?;
        std::fs::rename(tools.join("bench.part"), tools.join("bench"))?;
        let ask = format!("{wait} echo-client {address} echo.default.svc.cluster.local");
        self.connection.create(PODS, with_tools("ask", &ask).into()).await?;
        let said = self.said("ask").await?;
        let numbers: Vec<u64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>().context(said)?;
        let [question, connection] = numbers[..] else { anyhow::bail!("echo-client said {numbers:?}") };
        Ok(Cost { question: Duration::from_nanos(question), connection: Duration::from_nanos(connection) })
    }

    /// Waits until an object has a text there.
    async fn until(&mut self, path: &str, pointer: &str) -> Result<String> {
        loop {
            if let Some(text) = self.get(path).await?.pointer(pointer).and_then(Value::as_str) {
                return Ok(text.to_owned());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn with_tools(name: &str, script: &str) -> String {
    let mut pod = pod(name, &["sh", "-c", script]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "tools", "mountPath": "/tools" }]);
    pod["spec"]["restartPolicy"] = "Never".into();
    pod["spec"]["volumes"] = json!([{ "name": "tools", "persistentVolumeClaim": { "claimName": "tools" } }]);
    pod.to_string()
}

fn groups_of(uid: &str) -> Vec<PathBuf> {
    let mut find = std::process::Command::new("find");
    find.args(["/sys/fs/cgroup", "-type", "d", "-name"]).arg(format!("{uid}*"));
    let output = find.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().map(PathBuf::from).collect()
}
