//! A plane whose disk is full: writes are refused in words, reads go on, space that comes back is used, nothing is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};
use testkit::https::Connection;
use testkit::up::{self, Up};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A plane on a small file system that only it and its children see.
struct Small {
    process: Child,
    /// Its data directory, as seen from outside.
    data: PathBuf,
}

impl Small {
    fn start(mount_point: &Path) -> Self {
        let data = mount_point.join("data");
        // The mount exists in the new namespace alone, and goes with its last process.
        let script = format!("mount -t tmpfs -o size=16m tmpfs '{}' && exec \"$@\"", mount_point.display());
        let mut command = Command::new("unshare");
        if !geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let process = command
            .args(["--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_orrery"), "up"])
            .args(["--api-port", "0", "--server-port", "0", "--data-dir"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        // `unshare`, `sh` and `exec` keep the process id.
        let data = Path::new("/proc").join(process.id().to_string()).join("root").join(data.strip_prefix("/").unwrap());
        Self { process, data }
    }

    async fn connect(&mut self) -> Connection {
        let target = up::target_of(&self.data.join("kubeconfig"), &mut self.process).await.unwrap();
        target.connect().await.unwrap()
    }

    /// What `kill -9` would leave on the disk at this moment.
    fn kill_and_keep(mut self, into: &Path) {
        kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGSTOP).unwrap();
        fs::create_dir_all(into).unwrap();
        for file in ["store.db", "store.db-wal"] {
            fs::copy(self.data.join(file), into.join(file)).unwrap();
        }
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Resource versions of what was acknowledged, by name.
type Acknowledged = BTreeMap<String, String>;

#[tokio::test]
async fn a_full_disk_refuses_writes_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mount_point = folder.path().join("small");
    fs::create_dir(&mount_point).unwrap();
    let mut plane = Small::start(&mount_point);
    let mut connection = plane.connect().await;
    let ballast = plane.data.join("ballast");
    fs::write(&ballast, vec![1; 4_000_000]).unwrap();

    let mut acknowledged = Acknowledged::new();
    fill(&mut connection, &mut acknowledged).await;
    assert!(acknowledged.len() > 10, "{}", acknowledged.len());
    check(&mut connection, &acknowledged).await;
    let (status, _) = connection.send(Method::GET, "/readyz", Bytes::new()).await.unwrap();
    assert_eq!(status, StatusCode::OK, "it can still be read");

    fs::remove_file(&ballast).unwrap();
    let before = acknowledged.len();
    fill(&mut connection, &mut acknowledged).await;
    assert!(acknowledged.len() > before, "space that came back is used");
    check(&mut connection, &acknowledged).await;

    let kept = folder.path().join("kept");
    plane.kill_and_keep(&kept);
    let restarted = Up::start(Path::new(env!("CARGO_BIN_EXE_orrery")), &kept).await.unwrap();
    check(&mut restarted.target.connect().await.unwrap(), &acknowledged).await;
}

/// Creates until it is refused, as it must be: with a reason that clients can tell from others.
async fn fill(connection: &mut Connection, acknowledged: &mut Acknowledged) {
    loop {
        let name = format!("filling-{}", acknowledged.len());
        let data = json!({ "filling": "x".repeat(100_000) });
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        let (status, answer) = connection.send(Method::POST, MAPS, object.to_string().into()).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        if status != StatusCode::CREATED {
            assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE, "{answer}");
            assert_eq!(answer["reason"], "InsufficientStorage", "{answer}");
            assert!(answer["message"].as_str().unwrap().contains("the disk of the store is full"), "{answer}");
            return;
        }
        acknowledged.insert(name, version(&answer));
    }
}

/// What was acknowledged is there, and nothing that was refused.
async fn check(connection: &mut Connection, acknowledged: &Acknowledged) {
    let list: Value = serde_json::from_slice(&connection.get(MAPS).await.unwrap()).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let found = items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), version(item)));
    let found: Acknowledged = found.filter(|(name, _)| name.starts_with("filling-")).collect();
    assert_eq!(found, *acknowledged);
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}
