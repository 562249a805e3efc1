//! One rule a test.

use std::time::Duration;

use orrery_store::{EventKind, Options, Paging, ReadError, Revision, Scope, WatchEnded, WriteError};

use crate::common::{Fixture, all, at, create, delete, key, list, names, update};

#[tokio::test]
async fn the_revision_is_spliced_into_the_value() {
    let Fixture { store, .. } = &Fixture::new();
    assert_eq!(store.revision(), Revision(1));
    let entry = store.write(create(key("a", "x"), "1")).await.unwrap();
    assert_eq!(entry.revision, Revision(2));
    assert_eq!(entry.value, r#"{"metadata":{"resourceVersion":"2"},"data":"1"}"#);
    assert_eq!(store.get(&key("a", "x")).unwrap(), entry);
    assert_eq!(store.revision(), entry.revision);
}

#[tokio::test]
async fn a_write_whose_condition_does_not_hold_changes_nothing() {
    let Fixture { store, .. } = &Fixture::new();
    let first = store.write(create(key("a", "x"), "1")).await.unwrap();
    let error = store.write(create(key("a", "x"), "2")).await.unwrap_err();
    assert!(matches!(error, WriteError::Exists(entry) if entry == first));
    let second = store.write(update(&first, "2")).await.unwrap();
    let error = store.write(update(&first, "3")).await.unwrap_err();
    assert!(matches!(error, WriteError::Changed(Some(entry)) if entry == second));
    let error = store.write(delete(&first)).await.unwrap_err();
    assert!(matches!(error, WriteError::Changed(Some(_))));
    store.write(delete(&second)).await.unwrap();
    let error = store.write(update(&second, "4")).await.unwrap_err();
    assert!(matches!(error, WriteError::Changed(None)));
    assert_eq!(store.revision(), Revision(4));
    assert_eq!(store.get(&key("a", "x")), None);
}

#[tokio::test]
async fn lists_come_in_the_order_of_their_paths() {
    let Fixture { store, .. } = &Fixture::new();
    for (namespace, name) in [("a", "z"), ("b", "x"), ("a-b", "x"), ("a", "x"), ("a", "y")] {
        store.write(create(key(namespace, name), "1")).await.unwrap();
    }
    let page = list(store);
    assert_eq!(names(&page.entries), ["a-b/x", "a/x", "a/y", "a/z", "b/x"]);
    let scope = Scope::namespace(crate::common::RESOURCE, "a");
    let page = store.list(&scope, &Paging::default()).unwrap();
    assert_eq!(names(&page.entries), ["a/x", "a/y", "a/z"]);
    let other = store.list(&Scope::all("/secrets"), &Paging::default()).unwrap();
    assert_eq!((other.entries.len(), other.revision), (0, store.revision()));
}

#[tokio::test]
async fn pages_are_of_one_moment() {
    let Fixture { store, .. } = &Fixture::new();
    for name in ["a", "b", "c", "d"] {
        store.write(create(key("n", name), "1")).await.unwrap();
    }
    let mut paging = Paging { limit: Some(2), ..Paging::default() };
    let first = store.list(&all(), &paging).unwrap();
    assert_eq!(names(&first.entries), ["n/a", "n/b"]);
    assert_eq!(first.remaining, 2);

    store.write(delete(&store.get(&key("n", "c")).unwrap())).await.unwrap();
    store.write(update(&store.get(&key("n", "d")).unwrap(), "2")).await.unwrap();
    store.write(create(key("n", "bb"), "1")).await.unwrap();

    paging.after = Some(("n".to_owned(), "b".to_owned()));
    paging.at = Some(first.revision);
    let second = store.list(&all(), &paging).unwrap();
    assert_eq!(names(&second.entries), ["n/c", "n/d"]);
    assert_eq!((second.remaining, second.revision), (0, first.revision));
    assert!(second.entries.iter().all(|entry| entry.revision <= first.revision));
    assert_eq!(names(&list(store).entries), ["n/a", "n/b", "n/bb", "n/d"]);
}

#[tokio::test]
async fn a_page_after_a_key_outside_of_the_scope_is_no_trap() {
    let Fixture { store, .. } = &Fixture::new();
    store.write(create(key("m", "x"), "1")).await.unwrap();
    let scope = Scope::namespace(crate::common::RESOURCE, "m");
    for (namespace, expected) in [("a", 1), ("z", 0), ("", 1)] {
        let paging = Paging { after: Some((namespace.to_owned(), "a".to_owned())), ..Paging::default() };
        assert_eq!(store.list(&scope, &paging).unwrap().entries.len(), expected);
    }
}

#[tokio::test]
async fn a_watch_sees_what_its_scope_covers() {
    let Fixture { store, .. } = &Fixture::new();
    let mut everything = store.watch(&all(), store.revision()).unwrap();
    let scope = Scope::namespace(crate::common::RESOURCE, "a");
    let mut one = store.watch(&scope, store.revision()).unwrap();
    let first = store.write(create(key("a", "x"), "1")).await.unwrap();
    store.write(create(key("b", "x"), "1")).await.unwrap();
    let second = store.write(update(&first, "2")).await.unwrap();
    let last = store.write(delete(&second)).await.unwrap();

    let events = one.next().await.unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Added, EventKind::Modified, EventKind::Deleted]);
    assert_eq!(events[2].entry, last);
    assert_eq!(events[2].previous.as_ref(), Some(&second));
    assert_eq!(everything.next().await.unwrap().len(), 4);
    assert_eq!(one.progress(), store.revision());
}

#[tokio::test]
async fn progress_waits_for_what_is_unread() {
    let Fixture { store, .. } = &Fixture::new();
    let mut watch = store.watch(&all(), store.revision()).unwrap();
    store.write(create(key("a", "x"), "1")).await.unwrap();
    assert_eq!(watch.progress(), Revision(1));
    watch.next().await.unwrap();
    assert_eq!(watch.progress(), Revision(2));
    let other = orrery_store::Key::new("/secrets", "a", "x");
    store.write(create(other, "1")).await.unwrap();
    assert_eq!(watch.progress(), Revision(3), "nothing for this watch in 3");
}

#[tokio::test]
async fn a_moment_that_was_compacted_has_expired() {
    let Fixture { store, .. } = &Fixture::new();
    let first = store.write(create(key("a", "x"), "1")).await.unwrap();
    let mut slow = store.watch(&all(), Revision(1)).unwrap();
    let second = store.write(update(&first, "2")).await.unwrap();
    store.compact().await.unwrap();

    let expired = ReadError::Expired { requested: first.revision, oldest: second.revision };
    assert_eq!(store.list(&all(), &at(first.revision)), Err(expired));
    assert_eq!(store.watch(&all(), first.revision).unwrap_err(), expired);
    assert!(matches!(slow.next().await, Err(WatchEnded::Expired { .. })));
    assert_eq!(list(store).entries, std::slice::from_ref(&second));
    store.watch(&all(), second.revision).unwrap();
    let future = store.watch(&all(), Revision(99)).unwrap_err();
    assert!(matches!(future, ReadError::Future { .. }));
}

#[tokio::test]
async fn a_quiet_watch_survives_the_compaction_of_others() {
    let Fixture { store, .. } = &Fixture::new();
    let scope = Scope::namespace(crate::common::RESOURCE, "quiet");
    let mut quiet = store.watch(&scope, store.revision()).unwrap();
    for round in 0..10 {
        let name = round.to_string();
        store.write(create(key("busy", &name), "1")).await.unwrap();
    }
    store.compact().await.unwrap();
    let entry = store.write(create(key("quiet", "x"), "1")).await.unwrap();
    assert_eq!(quiet.next().await.unwrap()[0].entry, entry);
}

#[tokio::test]
async fn a_restart_keeps_objects_history_and_the_revision() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let first = store.write(create(key("a", "x"), "1")).await.unwrap();
    let second = store.write(update(&first, "2")).await.unwrap();
    let other = store.write(create(key("b", "y"), "1")).await.unwrap();
    store.write(delete(&second)).await.unwrap();
    let before = store.stats();

    let fixture = fixture.reopen().await;
    let store = &fixture.store;
    assert_eq!(store.stats(), before);
    assert_eq!(list(store).entries, std::slice::from_ref(&other));
    assert_eq!(store.list(&all(), &at(other.revision)).unwrap().entries, [second.clone(), other]);
    let mut watch = store.watch(&all(), first.revision).unwrap();
    let events = watch.next().await.unwrap();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0].previous.as_ref(), Some(&first));
    assert_eq!(events[2].previous.as_ref(), Some(&second));
}

#[tokio::test]
async fn the_revision_never_goes_back_even_when_nothing_is_left() {
    let fixture = Fixture::new();
    let entry = fixture.store.write(create(key("a", "x"), "1")).await.unwrap();
    fixture.store.write(delete(&entry)).await.unwrap();
    fixture.store.compact().await.unwrap();
    let fixture = fixture.reopen().await;
    assert_eq!(fixture.store.revision(), Revision(3));
    let entry = fixture.store.write(create(key("a", "x"), "1")).await.unwrap();
    assert_eq!(entry.revision, Revision(4));
}

#[tokio::test]
async fn closing_ends_watches_and_refuses_writes() {
    let Fixture { store, .. } = &Fixture::new();
    let mut watch = store.watch(&all(), store.revision()).unwrap();
    let entry = store.write(create(key("a", "x"), "1")).await.unwrap();
    store.close().await;
    assert_eq!(watch.next().await.unwrap().len(), 1, "what was written comes first");
    assert_eq!(watch.next().await, Err(WatchEnded::Closed));
    let error = store.write(delete(&entry)).await.unwrap_err();
    assert!(matches!(error, WriteError::Stopped(_)));
    assert_eq!(store.get(&entry.key), Some(entry));
    assert_eq!(store.stopped().await, "it was closed");
}

#[tokio::test]
async fn old_history_goes_by_itself() {
    let Fixture { store, .. } =
        &Fixture::with(Options { history_age: Duration::from_millis(20), ..Options::default() });
    let mut entry = store.write(create(key("a", "x"), "0")).await.unwrap();
    for round in 1..=5 {
        entry = store.write(update(&entry, &round.to_string())).await.unwrap();
    }
    while store.stats().history_events > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(store.stats().oldest, entry.revision);
    assert_eq!(list(store).entries, [entry]);
}
