//! Watches: where they begin, what they show, how they end.

use serde_json::json;
use testkit::Plane;

use crate::support::{Events, MAPS, brief, labelled, map};

const JSON: &str = "application/json";

#[tokio::test]
async fn without_a_revision_the_state_comes_first() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    let mut events = Events::open(&plane, &format!("{MAPS}?watch=1"), JSON).await;
    assert_eq!(events.brief().await, brief("ADDED", "a"));
    plane.post(MAPS, &map("b")).await;
    assert_eq!(events.brief().await, brief("ADDED", "b"));
    plane.patch(&format!("{MAPS}/b"), "merge-patch+json", &json!({ "data": { "x": "y" } })).await;
    assert_eq!(events.brief().await, brief("MODIFIED", "b"));
    plane.delete(&format!("{MAPS}/a")).await;
    assert_eq!(events.brief().await, brief("DELETED", "a"));
}

#[tokio::test]
async fn from_a_revision_only_what_follows() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    let revision = plane.get(MAPS).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    plane.post(MAPS, &map("b")).await;
    let mut events = Events::open(&plane, &format!("{MAPS}?watch=1&resourceVersion={revision}"), JSON).await;
    let event = events.next().await.unwrap();
    assert_eq!(event["object"], plane.get(&format!("{MAPS}/b")).await.json());
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = Events::open(&plane, &format!("{MAPS}?{query}"), JSON).await;
    assert_eq!(events.brief().await, brief("ADDED", "a"));
    let mark = events.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["kind"], "ConfigMap");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let without = plane.get(&format!("{MAPS}?watch=1&sendInitialEvents=true")).await;
    assert_eq!((without.code.as_u16(), &without.json()["reason"]), (422, &json!("Invalid")));
}

#[tokio::test]
async fn objects_that_begin_or_cease_to_match_are_added_or_deleted() {
    let plane = Plane::start().await;
    let mut events = Events::open(&plane, &format!("{MAPS}?watch=1&labelSelector=l%3Dyes"), JSON).await;
    plane.post(MAPS, &labelled("a", "no")).await;
    plane.patch(&format!("{MAPS}/a"), "merge-patch+json", &json!({ "metadata": { "labels": { "l": "yes" } } })).await;
    assert_eq!(events.brief().await, brief("ADDED", "a"));
    let changed = plane
        .patch(&format!("{MAPS}/a"), "merge-patch+json", &json!({ "metadata": { "labels": { "l": "no" } } }))
        .await;
    let gone = events.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    // The client gets what it knew, at the revision of the change.
    assert_eq!(gone["object"]["metadata"]["labels"]["l"], "yes");
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], changed.json()["metadata"]["resourceVersion"]);
    plane.post(MAPS, &labelled("b", "yes")).await;
    assert_eq!(events.brief().await, brief("ADDED", "b"));
}

#[tokio::test]
async fn one_object_can_be_watched_by_field() {
    let plane = Plane::start().await;
    let mut events = Events::open(&plane, &format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Db"), JSON).await;
    plane.post(MAPS, &map("a")).await;
    plane.post(MAPS, &map("b")).await;
    assert_eq!(events.brief().await, brief("ADDED", "b"));
}

#[tokio::test]
async fn revisions_of_another_store_are_expired() {
    let plane = Plane::start().await;
    let mut events = Events::open(&plane, &format!("{MAPS}?watch=1&resourceVersion=999999"), JSON).await;
    let event = events.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(events.next().await, None);
    assert_eq!(plane.get(&format!("{MAPS}?watch=1&resourceVersion=soon")).await.code, 400);
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over_with_a_last_bookmark() {
    let plane = Plane::start().await;
    let query = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true";
    let mut events = Events::open(&plane, &format!("{MAPS}?{query}"), JSON).await;
    assert_eq!(events.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn closing_the_server_ends_its_watches() {
    let plane = Plane::start().await;
    let mut events = Events::open(&plane, &format!("{MAPS}?watch=1"), JSON).await;
    plane.server().close();
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_table_watch_names_its_columns_once() {
    let plane = Plane::start().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let mut events = Events::open(&plane, &format!("{MAPS}?watch=1"), accept).await;
    plane.post(MAPS, &map("a")).await;
    plane.post(MAPS, &map("b")).await;
    let first = events.next().await.unwrap()["object"].clone();
    let second = events.next().await.unwrap()["object"].clone();
    assert_eq!(first["columnDefinitions"][0]["name"], "Name");
    assert_eq!((&first["kind"], &first["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    assert_eq!((&second["columnDefinitions"], &second["rows"][0]["cells"][0]), (&json!(null), &json!("b")));
}

#[tokio::test]
async fn ten_thousand_idle_watches_are_cheap_and_still_work() {
    let plane = Plane::start().await;
    let before = resident();
    let mut watches = Vec::new();
    for _ in 0..10_000 {
        watches.push(Events::open(&plane, &format!("{MAPS}?watch=1&allowWatchBookmarks=true"), JSON).await);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 300 << 20, "{} bytes for each watch", grown / 10_000);
    plane.post(MAPS, &map("a")).await;
    for events in &mut watches {
        assert_eq!(events.brief().await, brief("ADDED", "a"));
    }
}

/// Bytes of memory this process holds.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
