//! A disk that is full, and a disk that lies.

use std::collections::BTreeMap;
use std::process::Stdio;

use orrery_store::{Options, Store, WriteError};
use seccompiler::{SeccompAction, SeccompFilter};

use crate::child;
use crate::common::{all, create, key, list, update};

/// Runs the test `role` in a process and returns what it said, when it succeeded.
fn run(wrapper: &[&str], role: &str, directory: &std::path::Path) -> Result<String, String> {
    let output = child::command(wrapper, role, directory).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    // A small file system that only the child sees.
    let mount = format!("mount -t tmpfs -o size=4m tmpfs '{path}' && touch '{path}/small' && exec \"$@\"");
    let wrapper = ["unshare", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"];
    if std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", path])
        .status()
        .is_ok_and(|status| status.success())
    {
        run(&wrapper, "failures::full_disk_child", directory.path()).unwrap();
        return;
    }
    // Not permitted here: a limit on the size of files does nearly the same.
    let limit = "trap '' XFSZ; ulimit -f 4096; exec \"$@\"";
    run(&["sh", "-c", limit, "sh"], "failures::full_disk_child", directory.path()).unwrap();
    let store = Store::open(directory.path().join("store.db"), Options::default()).unwrap();
    assert!(store.stats().objects > 10);
}

#[tokio::test]
#[ignore = "a_full_disk_refuses_writes_and_loses_nothing starts it"]
async fn full_disk_child() {
    let directory = child::directory();
    let small = directory.join("small").exists();
    let ballast = directory.join("ballast");
    if small {
        std::fs::write(&ballast, vec![1; 1_000_000]).unwrap();
    }
    let path = directory.join("store.db");
    let store = Store::open(&path, Options::default()).unwrap();
    let mut acknowledged = BTreeMap::new();
    let refused = fill(&store, &mut acknowledged).await;
    assert!(!small || matches!(refused, WriteError::Full(_)), "{refused}");
    check(&store, &acknowledged);
    // A condition that does not hold is still the answer, and reading works.
    let error = store.write(create(key("n", "0"), "again")).await.unwrap_err();
    assert!(matches!(error, WriteError::Exists(_)), "{error}");
    if small {
        std::fs::remove_file(&ballast).unwrap();
        let entry = store.get(&key("n", "0")).unwrap();
        let entry = store.write(update(&entry, "after")).await.unwrap();
        acknowledged.insert("0".to_owned(), entry);
        let refused = fill(&store, &mut acknowledged).await;
        assert!(matches!(refused, WriteError::Full(_)), "{refused}");
        check(&store, &acknowledged);
        store.close().await;
        let store = Store::open(&path, Options::default()).unwrap();
        check(&store, &acknowledged);
    }
}

type Acknowledged = BTreeMap<String, std::sync::Arc<orrery_store::Entry>>;

/// Writes until it is refused.
async fn fill(store: &Store, acknowledged: &mut Acknowledged) -> WriteError {
    let data = "x".repeat(20_000);
    loop {
        let name = acknowledged.len().to_string();
        match store.write(create(key("n", &name), &data)).await {
            Ok(entry) => acknowledged.insert(name, entry),
            Err(error) => return error,
        };
    }
}

fn check(store: &Store, acknowledged: &Acknowledged) {
    let found: Acknowledged = list(store).entries.into_iter().map(|entry| (entry.key.name.clone(), entry)).collect();
    assert!(found == *acknowledged, "{} of {}", found.len(), acknowledged.len());
    let last = acknowledged.values().map(|entry| entry.revision).max();
    assert_eq!(Some(store.revision()), last);
}

#[test]
fn a_failed_sync_stops_the_store() {
    let directory = tempfile::tempdir().unwrap();
    run(&[], "failures::failed_sync_child", directory.path()).unwrap();
    let store = Store::open(directory.path().join("store.db"), Options::default()).unwrap();
    assert!(store.get(&key("n", "before")).is_some());
}

#[tokio::test]
#[ignore = "a_failed_sync_stops_the_store starts it"]
async fn failed_sync_child() {
    let path = child::directory().join("store.db");
    let store = Store::open(&path, Options::default()).unwrap();
    let before = store.write(create(key("n", "before"), "1")).await.unwrap();
    let mut watch = store.watch(&all(), store.revision()).unwrap();
    break_sync();
    let error = store.write(create(key("n", "x"), "1")).await.unwrap_err();
    assert!(matches!(error, WriteError::Stopped(_)), "{error}");
    assert!(!store.stopped().await.is_empty());
    let error = store.write(update(&before, "2")).await.unwrap_err();
    assert!(matches!(error, WriteError::Stopped(_)), "{error}");
    assert_eq!(list(&store).entries, [before], "what was promised can still be read");
    assert_eq!(watch.next().await, Err(orrery_store::WatchEnded::Closed));
}

/// From now on this process cannot sync: the kernel answers with an I/O error.
fn break_sync() {
    const IO_ERROR: u32 = 5;
    let rules = BTreeMap::from([(nix::libc::SYS_fsync, Vec::new()), (nix::libc::SYS_fdatasync, Vec::new())]);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(IO_ERROR),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}
