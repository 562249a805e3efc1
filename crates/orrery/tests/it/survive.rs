//! Pods and a plane that is killed again and again: none runs twice, none is lost, nothing is left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hyper::Method;
use rand::Rng as _;
use serde_json::{Value, json};
use testkit::https::Connection;
use testkit::up::Up;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
/// New Pods in a round.
const NEW: usize = 5;

async fn start(data: &Path) -> (Up, Connection) {
    let up = Up::start(Path::new(env!("CARGO_BIN_EXE_orrery")), data).await.unwrap();
    let ready = async {
        while !up.target.is_ready().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), ready).await.expect("orrery becomes ready");
    let connection = up.target.connect().await.unwrap();
    (up, connection)
}

/// A Pod that says in a file, once for each run, that it ran.
fn once(name: &str, seconds: f64) -> Value {
    let script = format!("echo {name} >> /runs/all; sleep {seconds}");
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "main", "image": "host", "command": ["sh", "-c", script],
                             "volumeMounts": [{ "name": "runs", "mountPath": "/runs" }] }],
            "volumes": [{ "name": "runs", "persistentVolumeClaim": { "claimName": "runs" } }],
        },
    })
}

fn claim() -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "runs" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } } })
}

/// Processes that belong to a data directory: shims and the network's holder have it in their command line, what they
/// run has it nowhere, but is in the same pid namespaces.
fn processes(data: &Path) -> BTreeSet<i32> {
    let mark = data.to_string_lossy().into_owned();
    let mut found = BTreeSet::new();
    let mut spaces = BTreeSet::new();
    let all: Vec<i32> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .collect();
    let user_space = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/user")).ok();
    for pid in &all {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&mark) {
            found.insert(*pid);
            spaces.extend(user_space(*pid));
        }
    }
    spaces.remove(&user_space(i32::try_from(std::process::id()).unwrap()).unwrap_or_default());
    found.extend(all.into_iter().filter(|pid| user_space(*pid).is_some_and(|space| spaces.contains(&space))));
    found
}

/// Control groups of all planes. Ours have the Pod's uid in their name.
fn groups(uids: &BTreeSet<String>) -> Vec<PathBuf> {
    let listed = Command::new("find").args(["/sys/fs/cgroup", "-type", "d"]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    listed.lines().filter(|line| uids.iter().any(|uid| line.contains(uid.as_str()))).map(PathBuf::from).collect()
}

fn down(data: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_orrery")).arg("down").arg("--data-dir").arg(data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn list(connection: &mut Connection) -> Vec<Value> {
    let answer: Value = serde_json::from_slice(&connection.get(PODS).await.unwrap()).unwrap();
    answer["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_lost_or_run_twice_however_often_the_plane_is_killed() {
    let rounds = if std::env::var_os("ORRERY_TEST_LONG").is_some() { 100 } else { 10 };
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mounts_before = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let (up, mut connection) = start(&data).await;
    connection.create(CLAIMS, claim().to_string().into()).await.unwrap();
    up.kill().unwrap();

    let mut promised = BTreeSet::new();
    for round in 0..rounds {
        let (up, mut connection) = start(&data).await;
        // The first one is waited for, so that there is load on the slowest machine too.
        let first = format!("pod-{round}-first");
        connection.create(PODS, once(&first, 0.2).to_string().into()).await.unwrap();
        promised.insert(first);
        let delay = rand::rng().random_range(0..400);
        let storm = async {
            for number in 0..NEW {
                let name = format!("pod-{round}-{number}");
                let pod = once(&name, rand::rng().random_range(0.0..0.5));
                let Ok((status, _)) = connection.send(Method::POST, PODS, pod.to_string().into()).await else { return };
                assert!(status.is_success(), "{status}");
                promised.insert(name);
            }
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(Duration::from_millis(delay), storm).await;
        up.kill().unwrap();
    }

    assert!(promised.len() >= rounds, "there was no load: {} Pods in {rounds} rounds", promised.len());

    // Left alone, every Pod that was promised comes to its end, after exactly one run.
    let (up, mut connection) = start(&data).await;
    let patience = Duration::from_mins(3);
    let settled = async {
        loop {
            let pods = list(&mut connection).await;
            if pods.iter().all(|pod| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))) {
                return pods;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let Ok(pods) = tokio::time::timeout(patience, settled).await else {
        let unsettled: Vec<Value> =
            list(&mut connection).await.into_iter().filter(|pod| pod["status"]["phase"] != "Succeeded").collect();
        panic!("some Pods never end: {unsettled:#?}");
    };
    let names: BTreeSet<String> = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    assert!(names.is_superset(&promised), "lost: {:?}", promised.difference(&names));
    let volume = std::fs::read_dir(data.join("node/claims")).unwrap().next().unwrap().unwrap().path();
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(volume.join("all")).unwrap_or_default().lines() {
        *runs.entry(line.to_owned()).or_default() += 1;
    }
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert_eq!(pod["status"]["phase"], "Succeeded", "{pod:#}");
        assert_eq!(runs.get(name), Some(&1), "{name} ran so often: {pod:#}");
    }

    // Deleted, they leave nothing; and nothing is left of the plane when it goes down.
    let uids: BTreeSet<String> = pods.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect();
    for name in &names {
        connection.send(Method::DELETE, &format!("{PODS}/{name}"), "".into()).await.unwrap();
    }
    while !list(&mut connection).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let directories = || std::fs::read_dir(data.join("node/pods")).unwrap().count();
    while directories() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(groups(&uids), Vec::<PathBuf>::new());
    up.kill().unwrap();
    down(&data);
    let left = processes(&data);
    assert_eq!(left, BTreeSet::new(), "processes are left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    assert_eq!(mounts, mounts_before, "mounts are left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn down_ends_pods_that_run() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let (up, mut connection) = start(&data).await;
    let mut pod = once("long", 1000.0);
    pod["spec"]["volumes"] = json!([{ "name": "runs", "emptyDir": {} }]);
    pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", "trap '' TERM; (setsid sleep 1000 &); sleep 1000"]);
    connection.create(PODS, pod.to_string().into()).await.unwrap();
    while list(&mut connection).await[0]["status"]["phase"] != "Running" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    up.kill().unwrap();
    assert!(processes(&data).len() >= 4, "the network's holder, a shim, its keeper, its command");
    down(&data);
    assert_eq!(processes(&data), BTreeSet::new());
    // What may not run twice does not when the plane comes back, and says what happened.
    let (up, mut connection) = start(&data).await;
    while list(&mut connection).await[0]["status"]["phase"] != "Failed" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(up);
    down(&data);
    assert_eq!(processes(&data), BTreeSet::new());
}

/// What runs when a plane goes down is ended, and the kernel keeps nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn running_pods_leave_nothing_when_the_plane_goes_down() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (up, mut connection) = start(&data).await;
    connection.create(CLAIMS, claim().to_string().into()).await.unwrap();
    for name in ["one", "two", "three"] {
        connection.create(PODS, once(name, 1000.0).to_string().into()).await.unwrap();
    }
    let running = async {
        loop {
            let pods = list(&mut connection).await;
            if pods.iter().all(|pod| pod["status"]["phase"] == "Running") {
                return pods;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let pods = tokio::time::timeout(Duration::from_mins(2), running).await.expect("they run");
    let uids: BTreeSet<String> = pods.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect();
    up.kill().unwrap();
    down(&data);
    assert_eq!(groups(&uids), Vec::<PathBuf>::new());
    assert_eq!(processes(&data), BTreeSet::new());
}
