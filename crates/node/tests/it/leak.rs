//! Nothing stays: processes, namespaces, mounts, control groups, directories, under Pods that behave badly.

use std::collections::BTreeSet;
use std::path::Path;

use kube::ResourceExt as _;
use serde_json::json;

use crate::plane::{World, phase};

/// Processes whose user namespace is below ours: those of Pods of this test, told apart by a word in their environment.
pub fn processes_with(mark: &str) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(mark.len()).any(|window| window == mark.as_bytes()) {
            found.insert(pid);
        }
    }
    found
}

/// Namespaces, by kind and number, of the shims of these Pods, which have the uid in their command line.
fn namespaces_with(uids: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let own: BTreeSet<String> = namespaces(&std::process::id().to_string());
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if uids.iter().any(|uid| line.contains(uid.as_str())) {
            found.extend(namespaces(&entry.file_name().to_string_lossy()));
        }
    }
    &found - &own
}

fn namespaces(process: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(format!("/proc/{process}/ns")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

pub fn groups_of(uid: &str) -> Vec<std::path::PathBuf> {
    fn walk(directory: &Path, uid: &str, depth: u32, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(uid) {
                    found.push(entry.path());
                } else if depth > 0 {
                    walk(&entry.path(), uid, depth - 1, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), uid, 6, &mut found);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_behave_badly_leave_nothing_behind() {
    let world = World::new().await;
    let mark = format!("LEAK_MARK={}", std::process::id());
    let scripts = [
        ("forks", "for i in 1 2 3 4 5 6 7 8; do (setsid sleep 1000 &) ; done; echo up; sleep 1000"),
        ("ignores", "trap '' TERM HUP INT; echo up; while :; do sleep 0.1; done"),
        ("shouts", "echo up; yes 'a line that fills the log' | head -c 30000000; sleep 1000"),
        (
            "opens",
            "exec bash -c 'ulimit -n $(ulimit -Hn); for i in {1..10000}; do exec {file}>/tmp/$i || break; done; echo up; sleep 1000'",
        ),
    ];
    let mut uids = Vec::new();
    for (name, script) in scripts {
        let (variable, value) = mark.split_once('=').unwrap();
        let container = json!([{ "name": "main", "command": ["sh", "-c", script],
                                 "env": [{ "name": variable, "value": value }] }]);
        let pod = world.create(name, json!({ "terminationGracePeriodSeconds": 1, "containers": container })).await;
        uids.push(pod.uid().unwrap());
    }
    for (name, _) in scripts {
        world.until(name, |pod| phase(pod) == "Running").await;
        world.said(name, "up").await;
    }
    assert!(processes_with(&mark).len() >= 4 + 8, "the marks are seen from outside");
    // A shim's are hidden from everybody but root.
    let visible = if nix::unistd::geteuid().is_root() { 4 * 6 } else { 4 };
    assert!(namespaces_with(&uids).len() >= visible, "a Pod has six kinds of namespaces");
    let log: u64 = ["log", "log.1"]
        .iter()
        .filter_map(|file| {
            std::fs::metadata(world.data.path().join("pods").join(&uids[2]).join("containers/main/0").join(file)).ok()
        })
        .map(|data| data.len())
        .sum();
    assert!(log < 25 * 1024 * 1024, "a log is bounded: {log}");
    for (name, _) in scripts {
        world.delete(name).await;
    }
    // The API says that they are gone only after their processes are, and namespaces live as long as their processes.
    assert_eq!(processes_with(&mark), BTreeSet::new());
    assert_eq!(namespaces_with(&uids), BTreeSet::new());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    for uid in uids {
        assert_eq!(groups_of(&uid), Vec::<std::path::PathBuf>::new());
        assert!(!mounts.contains(&uid));
        crate::support::until(|| !world.data.path().join("pods").join(&uid).exists()).await;
    }
}
