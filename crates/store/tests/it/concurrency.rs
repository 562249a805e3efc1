//! Many at once.

use std::sync::Arc;

use orrery_store::{Entry, Paging, Revision, Store, WatchEnded, WriteError};

use crate::common::{Fixture, all, at, create, key, list, update};

fn number(entry: &Entry) -> usize {
    let value: serde_json::Value = serde_json::from_slice(&entry.value).unwrap();
    value["data"].as_str().unwrap().parse().unwrap()
}

/// Adds one, however often someone else is faster.
async fn increment(store: &Store, name: &str) {
    let mut current = store.get(&key("n", name)).unwrap();
    loop {
        let next = (number(&current) + 1).to_string();
        current = match store.write(update(&current, &next)).await {
            Ok(_) => return,
            Err(WriteError::Changed(Some(entry))) => entry,
            Err(error) => panic!("{error}"),
        };
    }
}

/// Follows from `after` until the store closes; each revision must come exactly once.
async fn follow(store: Store, after: Revision) -> Revision {
    let mut watch = store.watch(&all(), after).unwrap();
    drop(store);
    let mut last = after;
    loop {
        match watch.next().await {
            Ok(events) => {
                for event in events {
                    assert_eq!(event.revision().0, last.0 + 1);
                    last = event.revision();
                }
            }
            Err(WatchEnded::Closed) => return last,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_between_many_writers_and_watchers() {
    const WRITERS: usize = 12;
    const ROUNDS: usize = 25;
    let Fixture { store, .. } = &Fixture::new();
    for name in ["a", "b"] {
        store.write(create(key("n", name), "0")).await.unwrap();
    }
    let start = store.revision();
    let watchers: Vec<_> = (0..4).map(|_| tokio::spawn(follow(store.clone(), start))).collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            let name = ["a", "b"][writer % 2];
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    increment(&store, name).await;
                }
            })
        })
        .collect();
    let reader = tokio::spawn(read_while_writing(store.clone(), start.0 + (WRITERS * ROUNDS) as u64));
    for writer in writers {
        writer.await.unwrap();
    }
    reader.await.unwrap();
    let total: usize = list(store).entries.iter().map(|entry| number(entry)).sum();
    assert_eq!(total, WRITERS * ROUNDS);
    store.close().await;
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), store.revision());
    }
}

/// Every list is of one moment: the sum of the counters is the number of changes so far, now and when asked again.
async fn read_while_writing(store: Store, end: u64) {
    let sum = |entries: &[Arc<Entry>]| entries.iter().map(|entry| number(entry)).sum::<usize>();
    loop {
        let page = list(&store);
        assert_eq!(sum(&page.entries) as u64, page.revision.0 - 3);
        let back = Revision(page.revision.0.max(13) - 10);
        let older = store.list(&all(), &at(back)).unwrap();
        assert_eq!(sum(&older.entries) as u64, back.0.saturating_sub(3));
        if page.revision.0 == end {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn ten_thousand_idle_watches_are_cheap_and_all_wake_up() {
    assert!(size_of::<orrery_store::Watch>() <= 32, "a cursor, not a buffer");
    let Fixture { store, .. } = &Fixture::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10_000 {
        let mut watch = store.watch(&all(), store.revision()).unwrap();
        tasks.spawn(async move { watch.next().await.unwrap().len() });
    }
    tokio::task::yield_now().await;
    store.write(create(key("n", "x"), "1")).await.unwrap();
    let seen: usize = tasks.join_all().await.into_iter().sum();
    assert_eq!(seen, 10_000);
}

#[tokio::test]
async fn waiting_writes_share_a_commit_and_are_judged_in_order() {
    let Fixture { store, .. } = &Fixture::new();
    let writes = (0..200).map(|round| {
        let change = create(key("n", &(round % 50).to_string()), &round.to_string());
        let store = store.clone();
        async move { store.write(change).await }
    });
    let answers = futures::future::join_all(writes).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (50, 150));
    for error in refused {
        let Err(WriteError::Exists(entry)) = error else { panic!("{error:?}") };
        assert_eq!(store.get(&entry.key), Some(entry));
    }
    let page = store.list(&all(), &Paging::default()).unwrap();
    assert_eq!(page.entries.len(), 50);
}
