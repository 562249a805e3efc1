//! Writing for long needs no more space than the objects and the limits say.

use std::path::Path;
use std::time::Duration;

use orrery_store::{Options, Revision, Store};

use crate::common::{Fixture, all, create, delete, key, list, update};

const KEYS: usize = 32;

/// Every writer changes its own object again and again, and sometimes replaces it.
async fn churn(store: &Store, rounds: usize) {
    let writers = (0..KEYS).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = key("n", &number.to_string());
            let data = "x".repeat(4000);
            let mut current = store.get(&key);
            for round in 0..rounds {
                let written = match current.take() {
                    None => store.write(create(key.clone(), &data)).await.unwrap(),
                    Some(entry) if round % 10 == 9 => {
                        store.write(delete(&entry)).await.unwrap();
                        continue;
                    }
                    Some(entry) => store.write(update(&entry, &data)).await.unwrap(),
                };
                current = Some(written);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

fn size(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn file_and_history_stay_bounded() {
    let fixture =
        Fixture::with(Options { history_events: 400, history_bytes: 200_000, history_age: Duration::from_hours(1) });
    let store = &fixture.store;
    // Long enough that the write-ahead log has been copied and begun anew.
    churn(store, 160).await;
    let early = size(fixture.directory.path());
    let mut watch = store.watch(&all(), store.revision()).unwrap();
    churn(store, 200).await;
    assert!(watch.next().await.is_err(), "it slept through the compaction");

    let stats = store.stats();
    // A batch may come on top of the limit before it is tidied up.
    assert!(stats.history_events <= 400 + 2 * KEYS, "{stats:?}");
    assert!(stats.history_bytes <= 200_000 + 2 * KEYS * 9000, "{stats:?}");
    assert!(stats.revision > Revision(5000) && stats.oldest > Revision(4000), "{stats:?}");
    let late = size(fixture.directory.path());
    assert!(late <= early + early / 4, "{early} bytes became {late}");

    let before = list(store).entries;
    let fixture = fixture.reopen().await;
    assert_eq!(list(&fixture.store).entries, before);
    // What was still to be tidied up is tidied up at the start.
    let again = fixture.store.stats();
    assert_eq!((again.revision, again.objects), (stats.revision, stats.objects));
    assert!(again.oldest >= stats.oldest && again.history_events <= stats.history_events, "{again:?} after {stats:?}");
    let after = size(fixture.directory.path());
    assert!(after < 1_500_000, "{after} bytes for {KEYS} objects");
}

#[tokio::test]
async fn a_file_that_is_mostly_empty_becomes_small_at_the_next_start() {
    let fixture = Fixture::new();
    let data = "x".repeat(1_000_000);
    let mut entries = Vec::new();
    for number in 0..45 {
        let key = key("n", &number.to_string());
        entries.push(fixture.store.write(create(key, &data)).await.unwrap());
    }
    for entry in &entries[1..] {
        fixture.store.write(delete(entry)).await.unwrap();
    }
    fixture.store.compact().await.unwrap();
    let entries = list(&fixture.store).entries;
    fixture.store.close().await;
    let large = std::fs::metadata(fixture.path()).unwrap().len();
    assert!(large > 40_000_000, "{large}");
    let fixture = fixture.reopen().await;
    let small = size(fixture.directory.path());
    assert!(small < 4_000_000, "{small}");
    assert_eq!(list(&fixture.store).entries, entries);
}
