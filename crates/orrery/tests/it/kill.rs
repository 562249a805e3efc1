//! `kill -9` of the real binary in a storm of concurrent writes over HTTPS, again and again on the same data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use rand::Rng;
use serde_json::{Value, json};
use testkit::https::{Connection, Lines, Target};
use testkit::up::Up;

const MAPS: &str = "/api/v1/namespaces/storm/configmaps";
const CLIENTS: usize = 16;
const KEYS: usize = 3;

/// What the clients know about one object. An object that is not there has the mark `-`.
#[derive(Clone, Debug)]
struct Known {
    /// The last version that the server acknowledged: its revision (0 after a deletion) and its mark.
    acknowledged: (u64, String),
    /// The mark of a change that was sent after that: it may have happened.
    attempted: Option<String>,
}

impl Default for Known {
    fn default() -> Self {
        Self { acknowledged: (0, "-".to_owned()), attempted: None }
    }
}

#[derive(Debug, Default)]
struct Witness {
    objects: BTreeMap<String, Known>,
    /// Revisions of all acknowledged creates and updates.
    promised: BTreeSet<u64>,
    acknowledgements: usize,
    /// What a client's watch has seen, over all restarts.
    replay: Replay,
}

/// The objects as a watch shows them: any event lost, repeated or out of order does not fit.
#[derive(Debug, Default)]
struct Replay {
    last: u64,
    seen: BTreeSet<u64>,
    objects: BTreeMap<String, (u64, String)>,
}

type Shared = Arc<Mutex<Witness>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let rounds = if std::env::var_os("ORRERY_TEST_LONG").is_some() { 200 } else { 20 };
    let directory = tempfile::tempdir().unwrap();
    let shared = Shared::default();
    let server = start(directory.path()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "storm"}});
    let mut connection = server.target.connect().await.unwrap();
    connection.create("/api/v1/namespaces", namespace.to_string().into()).await.unwrap();
    let list: Value = serde_json::from_slice(&connection.get(MAPS).await.unwrap()).unwrap();
    shared.lock().unwrap().begin(&list);
    server.kill().unwrap();
    for round in 0..rounds {
        let server = start(directory.path()).await;
        storm_until_killed(server, &shared).await;
        let server = start(directory.path()).await;
        check(&server.target, &shared, round).await;
        server.kill().unwrap();
    }
    let witness = shared.lock().unwrap();
    assert!(witness.promised.len() > rounds, "there was no storm");
}

async fn start(data: &Path) -> Up {
    let server = Up::start(Path::new(env!("CARGO_BIN_EXE_orrery")), data).await.unwrap();
    let ready = async {
        while !server.target.is_ready().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), ready).await.expect("orrery becomes ready");
    server
}

/// Clients write, one watches; at a random moment the server is killed.
async fn storm_until_killed(server: Up, shared: &Shared) {
    let before = shared.lock().unwrap().acknowledgements;
    let (patience, delay) = (rand::rng().random_range(1..150), rand::rng().random_range(0..5000));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        tasks.spawn(storm(server.target.connect().await.unwrap(), client, shared.clone()));
    }
    let watch = resume(&server.target, shared).await;
    tasks.spawn(follow(watch, shared.clone()));
    while shared.lock().unwrap().acknowledgements < before + patience {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_micros(delay)).await;
    server.kill().unwrap();
    tasks.join_all().await;
}

/// Creates, updates and deletes the objects of one client until the server is gone.
async fn storm(mut connection: Connection, client: usize, shared: Shared) {
    for round in 0_usize.. {
        let name = format!("{client}-{}", round % KEYS);
        let mark = rand::rng().random::<u64>().to_string();
        let known = shared.lock().unwrap().objects.entry(name.clone()).or_default().clone();
        let (revision, old) = &known.acknowledged;
        let path = format!("{MAPS}/{name}");
        let (method, path, mark) = match old.as_str() {
            "-" => (Method::POST, MAPS.to_owned(), mark),
            _ if rand::rng().random_bool(0.2) => (Method::DELETE, path, "-".to_owned()),
            _ => (Method::PUT, path, mark),
        };
        let body = if method == Method::DELETE { Bytes::new() } else { config_map(&name, &mark, *revision) };
        shared.lock().unwrap().objects.entry(name.clone()).or_default().attempted = Some(mark.clone());
        let Ok((status, answer)) = connection.send(method, &path, body).await else { return };
        assert!(status.is_success(), "{status} {}", String::from_utf8_lossy(&answer));
        shared.lock().unwrap().acknowledge(name, mark, &answer);
    }
}

/// A ConfigMap that says how large it must be.
fn config_map(name: &str, mark: &str, revision: u64) -> Bytes {
    let size = rand::rng().random_range(100..4000);
    let version = if revision == 0 { Value::Null } else { revision.to_string().into() };
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "resourceVersion": version},
        "data": {"mark": mark, "size": size.to_string(), "filling": "#".repeat(size)},
    })
    .to_string()
    .into()
}

impl Witness {
    fn begin(&mut self, list: &Value) {
        self.replay.last = revision(list);
        for item in list["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap().to_owned();
            self.replay.objects.insert(name, (revision(item), mark(item)));
        }
    }

    fn acknowledge(&mut self, name: String, mark: String, answer: &[u8]) {
        let revision = if mark == "-" { 0 } else { revision(&serde_json::from_slice(answer).unwrap()) };
        if revision > 0 {
            assert!(self.promised.insert(revision), "revision {revision} was given twice");
        }
        self.acknowledgements += 1;
        self.objects.insert(name, Known { acknowledged: (revision, mark), attempted: None });
    }

    /// Compares what is there with what was promised, and takes it as the truth for the next round.
    fn compare(&mut self, list: &Value) {
        let found: BTreeMap<String, (u64, String)> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), (revision(item), mark(item))))
            .collect();
        for (name, known) in &mut self.objects {
            let now = found.get(name).cloned().unwrap_or((0, "-".to_owned()));
            let moved_on = known.attempted.as_ref() == Some(&now.1);
            assert!(now == known.acknowledged || moved_on, "{name}: {known:?}, but found {now:?}");
            *known = Known { acknowledged: now, attempted: None };
        }
        assert_eq!(found, self.replay.objects, "the watch missed something");
        let missed: Vec<_> = self.promised.difference(&self.replay.seen).collect();
        assert!(missed.is_empty(), "the watch missed {missed:?}");
    }
}

impl Replay {
    fn take(&mut self, event: &Value) {
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_else(|| panic!("{event}")).to_owned();
        let revision = revision(object);
        assert!(revision > self.last, "{revision} after {}", self.last);
        self.last = revision;
        self.seen.insert(revision);
        let before = match event["type"].as_str().unwrap() {
            "DELETED" => self.objects.remove(&name).is_some(),
            "MODIFIED" => self.objects.insert(name, (revision, mark(object))).is_some(),
            "ADDED" => self.objects.insert(name, (revision, mark(object))).is_none(),
            other => panic!("{other}"),
        };
        assert!(before, "{event} does not fit");
    }
}

async fn resume(target: &Target, shared: &Shared) -> Lines {
    let last = shared.lock().unwrap().replay.last;
    let path = format!("{MAPS}?watch=1&resourceVersion={last}");
    target.connect().await.unwrap().watch(&path).await.unwrap()
}

async fn follow(mut watch: Lines, shared: Shared) {
    while let Ok(line) = watch.next().await {
        let event = serde_json::from_slice(&line).unwrap();
        shared.lock().unwrap().replay.take(&event);
    }
}

/// After a restart: the watch goes on where it was, and everything promised is there.
async fn check(target: &Target, shared: &Shared, round: usize) {
    let mut connection = target.connect().await.unwrap();
    let mut watch = resume(target, shared).await;
    // When the watch has this, it has everything before it.
    let sentinel = config_map("sentinel", &round.to_string(), 0);
    let (status, answer) = match round {
        0 => connection.send(Method::POST, MAPS, sentinel).await.unwrap(),
        _ => connection.send(Method::PUT, &format!("{MAPS}/sentinel"), sentinel).await.unwrap(),
    };
    assert!(matches!(status, StatusCode::OK | StatusCode::CREATED), "{status} {answer:?}");
    let last = revision(&serde_json::from_slice(&answer).unwrap());
    while shared.lock().unwrap().replay.last < last {
        let line = watch.next().await.unwrap();
        let event = serde_json::from_slice(&line).unwrap();
        shared.lock().unwrap().replay.take(&event);
    }
    let objects = serde_json::from_slice(&connection.get(MAPS).await.unwrap()).unwrap();
    shared.lock().unwrap().compare(&objects);
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The mark of a ConfigMap, which must be whole.
fn mark(object: &Value) -> String {
    let data = &object["data"];
    let Some(mark) = data["mark"].as_str() else { return String::new() };
    assert_eq!(data["filling"].as_str().unwrap().len().to_string(), data["size"], "half an object");
    mark.to_owned()
}
