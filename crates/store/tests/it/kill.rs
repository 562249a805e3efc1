//! `kill -9` in a storm of writes, again and again on the same file.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use orrery_store::{Action, Change, Draft, Entry, Expect, Options, ReadError, Revision, Store, WatchEnded};
use rand::Rng;

use crate::child;
use crate::common::{RESOURCE, all, draft, key, list};

const WRITERS: usize = 16;
const KEYS: usize = 4;

/// What the child has said about one object. A deletion is the content `-`.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The last acknowledged version.
    acknowledged: Option<(Revision, String)>,
    /// The change that was sent after it, if any: it may have happened.
    attempted: Option<String>,
}

#[derive(Default)]
struct Witness {
    objects: BTreeMap<String, Known>,
    /// The last revision that the child's watch saw.
    seen: Revision,
    /// The largest revision anybody was told.
    told: Revision,
}

#[tokio::test]
async fn nothing_acknowledged_is_lost() {
    let rounds: usize = if std::env::var_os("ORRERY_TEST_LONG").is_some() { 200 } else { 20 };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut witness = Witness::default();
    for round in 0..rounds {
        let child = child::command(&[], "kill::storm_child", directory.path())
            .env("ORRERY_TEST_SMALL_HISTORY", if round % 4 == 3 { "1" } else { "" })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        witness.watch_until_killed(child);
        let store = Store::open(&path, Options::default()).unwrap();
        witness.check(&store).await;
    }
    assert!(witness.told > Revision(rounds as u64), "there was no storm");
}

impl Witness {
    /// Takes down what the child says, and kills it at a random moment.
    fn watch_until_killed(&mut self, mut child: Child) {
        let mut random = rand::rng();
        let patience = random.random_range(1..300);
        let delay = Duration::from_micros(random.random_range(0..5000));
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        let mut acknowledged = 0;
        while acknowledged < patience {
            let line = lines.next().expect("the child ended by itself");
            acknowledged += usize::from(self.note(&line));
        }
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines {
            self.note(&line);
        }
    }

    /// Whether the line was an acknowledgement. A line cut short by the kill is no line.
    fn note(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["try", name, text, "."] => {
                self.objects.entry(name.to_owned()).or_default().attempted = Some(text.to_owned());
            }
            ["done", name, text, revision, "."] => {
                let revision = Revision(revision.parse().unwrap());
                self.told = self.told.max(revision);
                self.objects.insert(
                    name.to_owned(),
                    Known { acknowledged: Some((revision, text.to_owned())), attempted: None },
                );
                return true;
            }
            ["seen", revision, "."] => {
                self.seen = Revision(revision.parse().unwrap());
                self.told = self.told.max(self.seen);
            }
            _ => {}
        }
        false
    }

    async fn check(&mut self, store: &Store) {
        assert!(store.revision() >= self.told, "revisions went back");
        let names: Vec<_> = self.objects.keys().cloned().collect();
        assert!(list(store).entries.iter().all(|entry| names.contains(&entry.key.name)));
        for name in names {
            let entry = store.get(&key("n", &name));
            let found = entry.as_deref().map_or_else(|| "-".to_owned(), content);
            let known = self.objects.get_mut(&name).unwrap();
            let kept = match (&known.acknowledged, &entry) {
                (Some((revision, data)), Some(entry)) => (entry.revision, &found) == (*revision, data),
                (Some((_, data)), None) => data == "-",
                (None, entry) => entry.is_none(),
            };
            let moved_on = known.attempted.as_ref() == Some(&found);
            assert!(kept || moved_on, "{name}: {known:?}, but found {entry:?}");
            // From now on what was found is the truth.
            let revision = entry.map_or(Revision(0), |entry| entry.revision);
            *known = Known { acknowledged: Some((revision, found)), attempted: None };
        }
        self.resume(store).await;
        self.told = store.revision();
    }

    /// A watch from what was last seen gets every later change once.
    async fn resume(&mut self, store: &Store) {
        let mut last = self.seen;
        match store.watch(&all(), last) {
            Ok(mut watch) => {
                while watch.progress() < store.revision() {
                    for event in watch.next().await.unwrap() {
                        assert_eq!(event.revision().0, last.0 + 1);
                        last = event.revision();
                    }
                }
                assert_eq!(last, store.revision());
            }
            Err(error) => {
                let oldest = store.stats().oldest;
                assert!(matches!(error, ReadError::Expired { .. }) && last < oldest);
            }
        }
        self.seen = store.revision();
    }
}

/// The data of an object, which must be whole.
fn content(entry: &Entry) -> String {
    let value: serde_json::Value = serde_json::from_slice(&entry.value).unwrap();
    assert_eq!(value["metadata"]["resourceVersion"], entry.revision.to_string());
    let data = value["data"].as_str().unwrap();
    let (mark, filling) = data.split_once(':').unwrap();
    let size: usize = mark.rsplit_once('x').unwrap().1.parse().unwrap();
    assert_eq!(filling.len(), size, "half an object");
    mark.to_owned()
}

fn filled(mark: &str, size: usize) -> Draft {
    draft(&format!("{mark}:{}", "#".repeat(size)))
}

fn say(line: &str) {
    // One write for a line, so that lines of different threads do not mix.
    std::io::stdout().lock().write_all(format!("{line} .\n").as_bytes()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "nothing_acknowledged_is_lost starts it, and kills it"]
async fn storm_child() {
    let mut options = Options::default();
    if std::env::var("ORRERY_TEST_SMALL_HISTORY").is_ok_and(|text| text == "1") {
        options.history_events = 100;
    }
    let store = Store::open(child::directory().join("store.db"), options).unwrap();
    let after = store.revision();
    for writer in 0..WRITERS {
        tokio::spawn(storm(store.clone(), writer));
    }
    let mut watch = store.watch(&orrery_store::Scope::all(RESOURCE), after).unwrap();
    loop {
        match watch.next().await {
            Ok(events) => say(&format!("seen {}", events.last().unwrap().revision())),
            Err(WatchEnded::Expired { oldest }) => watch = store.watch(&all(), oldest).unwrap(),
            Err(WatchEnded::Closed) => panic!("the store has stopped"),
        }
    }
}

/// Changes the objects of one writer for ever, and says so before and after.
async fn storm(store: Store, writer: usize) {
    for round in 0_usize.. {
        let name = format!("{writer}-{}", round % KEYS);
        let size = match rand::rng().random_range(0..20) {
            0 => 60_000,
            1..4 => 9000,
            _ => 700,
        };
        let current = store.get(&key("n", &name));
        let delete = current.is_some() && rand::rng().random_bool(0.2);
        let mark = format!("{}x{size}", rand::rng().random::<u64>());
        let told = if delete { "-" } else { &mark };
        say(&format!("try {name} {told}"));
        let draft = filled(&mark, size);
        let change = Change {
            key: key("n", &name),
            expect: current.map_or(Expect::Absent, |entry| Expect::At(entry.revision)),
            action: if delete { Action::Delete(draft) } else { Action::Put(draft) },
        };
        let entry = store.write(change).await.unwrap();
        say(&format!("done {name} {told} {}", entry.revision));
    }
}
