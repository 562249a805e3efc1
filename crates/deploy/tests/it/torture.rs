//! Sixteen processes want the same state, and are killed in the middle of it.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use orrery_deploy::state::{FileStore, Lock, SecretStore, Store};
use orrery_deploy::{Category, Key, Resource, State, Status};
use serde_json::json;
use testkit::{Chance, Plane};

const PROCESSES: usize = 16;

fn rounds() -> usize {
    if std::env::var_os("ORRERY_TEST_LONG").is_some() { 500 } else { 40 }
}

/// A store as a word: the URL of a plane, or the path of a file.
fn store(word: &str) -> Box<dyn Store> {
    if !word.starts_with("http://") {
        return Box::new(FileStore::new(word));
    }
    let config = kube::Config::new(word.parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    Box::new(SecretStore::new(client, "default", "torture", None))
}

/// One of the processes: takes the lock, writes, gives it back, writes down what it did; until it is told to stop.
#[tokio::test]
#[ignore = "a part that the tests below give to processes of their own"]
async fn worker() {
    let journal = PathBuf::from(std::env::var("TORTURE_JOURNAL").expect("started by a test below"));
    let word = std::env::var("TORTURE_STORE").unwrap();
    let chance = Chance::of(std::process::id().into());
    let note = |line: String| {
        let mut file = OpenOptions::new().append(true).create(true).open(&journal).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    let stop = journal.with_extension("stop");
    while !stop.exists() {
        let mut store = store(&word);
        let lock = Lock::new("torture");
        let mut state = match store.lock(&lock).await {
            Ok(state) => state,
            Err(failure) => {
                assert!(failure.to_string().contains("is locked by"), "{failure}");
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue;
            }
        };
        note(format!("enter {} {}", std::process::id(), lock.id));
        for _ in 0..=chance.below(3) {
            assert_eq!(state.rest.get("count").cloned().unwrap_or(json!(0)), json!(state.serial), "half a state");
            state.serial += 1;
            // A state without resources would go with its lock.
            state.resources = vec![Resource::new(Key::new("store", "s"), Status::Created)];
            state.rest.insert("count".into(), json!(state.serial));
            // Something that takes room, so that a torn write would show.
            state.rest.insert("filler".into(), json!("x".repeat(chance.below(20_000))));
            match store.keep(&state).await {
                Ok(()) => note(format!("kept {} {}", std::process::id(), state.serial)),
                // Whoever saw us die unlocks by force; a holder that is not dead would hear of it here.
                Err(failure) => panic!("{failure}"),
            }
        }
        note(format!("leave {} {}", std::process::id(), lock.id));
        store.unlock().await.unwrap();
    }
}

fn spawn(word: &str, journal: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "torture::worker", "--ignored", "--nocapture", "--test-threads=1"])
        .env("TORTURE_STORE", word)
        .env("TORTURE_JOURNAL", journal)
        .stdout(Stdio::null())
        .stderr(fs::File::create(journal.with_extension(format!("{}.log", next_number()))).unwrap())
        .spawn()
        .unwrap()
}

fn next_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn lines(journal: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Kills one process after another while all of them write.
async fn torture(word: &str, directory: &Path) {
    let journal = directory.join("journal");
    let chance = Chance::of(7);
    let mut workers: Vec<Child> = (0..PROCESSES).map(|_| spawn(word, &journal)).collect();
    let mut killed = BTreeSet::new();
    let mut seen = 0;
    for _ in 0..rounds() {
        // Someone got on since the last death.
        while lines(&journal).len() <= seen + chance.below(6) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            unlock_the_dead(word, &killed).await;
        }
        seen = lines(&journal).len();
        let victim = chance.below(PROCESSES);
        workers[victim].kill().unwrap();
        workers[victim].wait().unwrap();
        killed.insert(workers[victim].id().to_string());
        workers[victim] = spawn(word, &journal);
    }
    fs::write(journal.with_extension("stop"), "").unwrap();
    for mut worker in workers {
        while worker.try_wait().unwrap().is_none() {
            unlock_the_dead(word, &killed).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(worker.wait().unwrap().success(), "{}", logs(directory));
    }
    let (state, holder) = store(word).read().await.unwrap();
    assert!(holder.is_none_or(|holder| killed.iter().any(|dead| holder.owner.ends_with(&format!("process {dead}")))));
    judge(&lines(&journal), &killed, &state);
}

fn logs(directory: &Path) -> String {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    logs.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// What an operator does: reads who has the lock, knows that the process is dead, unlocks with the id.
async fn unlock_the_dead(word: &str, killed: &BTreeSet<String>) {
    if !word.starts_with("http://") {
        return; // The system released its lock.
    }
    let store = store(word);
    let Ok((_, Some(holder))) = store.read().await else { return };
    if killed.iter().any(|dead| holder.owner.ends_with(&format!("process {dead}"))) {
        store.force_unlock(&holder.id).await.unwrap();
    }
}

/// Nobody entered while someone else was inside, and no state that was acknowledged was lost.
fn judge(journal: &[Vec<String>], killed: &BTreeSet<String>, state: &State) {
    let (mut inside, mut last, mut kept) = (None::<&str>, 0, 0);
    for line in journal {
        let process = line[1].as_str();
        match line[0].as_str() {
            "enter" => {
                if let Some(other) = inside {
                    assert!(killed.contains(other), "{process} entered while {other} was inside");
                }
                inside = Some(process);
            }
            "kept" => {
                assert_eq!(inside, Some(process), "a state was written without the lock");
                let serial: u64 = line[2].parse().unwrap();
                assert!(serial > last, "state {serial} came after {last}: one of them was lost");
                last = serial;
                kept += 1;
            }
            "leave" => {
                assert_eq!(inside, Some(process));
                inside = None;
            }
            other => panic!("{other}"),
        }
    }
    assert!(state.serial >= last, "the last acknowledged state was {last}, now it is {}", state.serial);
    assert!(kept >= rounds(), "only {kept} states were written: nothing was tortured");
}

#[tokio::test]
async fn a_state_in_a_file_is_never_lost_or_shared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state/shop.json");
    torture(path.to_str().unwrap(), directory.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_in_the_cluster_is_never_lost_or_shared() {
    let plane = Plane::in_memory().await;
    let url = plane.serve().await;
    let directory = tempfile::tempdir().unwrap();
    torture(&url, directory.path()).await;
}

/// The holder of a lock that was taken away cannot write any more.
async fn fenced(mut first: Box<dyn Store>, mut second: Box<dyn Store>) {
    let lock = Lock::new("apply");
    let state = first.lock(&lock).await.unwrap();
    let (_, holder) = second.read().await.unwrap();
    assert_eq!(holder.as_ref().map(|holder| holder.id.as_str()), Some(lock.id.as_str()), "anyone can see who has it");

    let loser = Lock::new("apply");
    let refused = second.lock(&loser).await.expect_err("it is locked");
    assert_eq!(refused.category, Category::Conflict);
    for word in [lock.owner.as_str(), "apply since", &format!("orrery deploy unlock --id {}", lock.id)] {
        assert!(refused.to_string().contains(word), "{refused} does not say {word}");
    }
    let refused = second.force_unlock("some-other-id").await.expect_err("not its id");
    assert!(refused.to_string().contains("is not the lock's id"), "{refused}");
    second.force_unlock(&lock.id).await.unwrap();
    assert_eq!(second.force_unlock(&lock.id).await.expect_err("not locked").category, Category::NotFound);

    let next =
        |state: &State| State { serial: state.serial + 1, version: format!("{}x", state.version), ..state.clone() };
    let refused = first.keep(&next(&state)).await.expect_err("the lock is lost");
    assert!(refused.to_string().contains("was unlocked by force"), "{refused}");
    let state = second.lock(&loser).await.unwrap();
    assert_eq!(state, State::default(), "nothing of the first one's was written");
    second.keep(&next(&state)).await.unwrap();
    let refused = first.keep(&next(&state)).await.expect_err("the lock is lost");
    assert!(refused.to_string().contains("has it now"), "{refused}");
    first.unlock().await.unwrap();
    assert!(second.read().await.unwrap().1.is_some(), "who lost the lock does not take it from the next");
    second.keep(&next(&next(&state))).await.unwrap();
    let (state, _) = second.read().await.unwrap();
    assert_eq!(state.serial, 2);
    second.unlock().await.unwrap();
    assert!(second.keep(&state).await.is_err(), "without the lock nothing is written");
}

#[tokio::test]
async fn who_lost_the_lock_of_a_file_cannot_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    fenced(Box::new(FileStore::new(&path)), Box::new(FileStore::new(&path))).await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn who_lost_the_lock_of_a_secret_cannot_write() {
    let plane = Plane::in_memory().await;
    fenced(store_of(&plane), store_of(&plane)).await;
}

fn store_of(plane: &Plane) -> Box<dyn Store> {
    Box::new(SecretStore::new(plane.client(), "default", "shop", None))
}
