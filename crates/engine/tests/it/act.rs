use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use orrery_engine::{Key, Outcome};
use serde_json::json;

use crate::world::{MANAGED_BY, World};

#[tokio::test]
async fn an_object_is_applied_once_and_not_written_again_while_it_is_right() {
    let world = World::start().await;
    world.create("a", "apply", "one").await;
    let (engine, control) = world.engine().await;
    engine.drain(10).await;
    assert_eq!((world.text("a-copy").await.as_deref(), control.writes()), (Some("one"), 1));

    engine.reconcile("mirror", &Key::new("default", "a")).await.unwrap();
    engine.refresh().await.unwrap();
    engine.drain(10).await;
    assert_eq!(control.writes(), 1, "nothing to do");

    world.merge("a-copy", json!({"data": {"text": "someone else's"}})).await;
    engine.refresh().await.unwrap();
    engine.drain(10).await;
    assert_eq!((world.text("a-copy").await.as_deref(), control.writes()), (Some("one"), 2), "drift is repaired");

    world.merge("a-copy", json!({"metadata": {"annotations": {"note": "mine"}}})).await;
    engine.refresh().await.unwrap();
    engine.drain(10).await;
    assert_eq!(control.writes(), 2, "what others add is theirs");
}

#[tokio::test]
async fn a_field_that_is_no_longer_wanted_is_removed() {
    let world = World::start().await;
    world.create("a", "apply", "one").await;
    world.merge("a", json!({"data": {"more": "two"}})).await;
    let (engine, _) = world.engine().await;
    engine.drain(10).await;
    world.merge("a", json!({"data": {"more": null}})).await;
    engine.refresh().await.unwrap();
    engine.drain(10).await;
    let copy = world.maps().get("a-copy").await.unwrap();
    assert_eq!(copy.data.unwrap().into_keys().collect::<Vec<_>>(), ["text"]);
}

#[tokio::test]
async fn what_belongs_to_someone_else_is_left_alone_and_the_conflict_is_told() {
    for (verb, labels) in [("apply", json!({})), ("create", json!({MANAGED_BY: "someone"}))] {
        let world = World::start().await;
        let theirs = json!({"metadata": {"name": "a-copy", "labels": labels}, "data": {"text": "theirs"}});
        let theirs: ConfigMap = serde_json::from_value(theirs).unwrap();
        let theirs = world.maps().create(&PostParams::default(), &theirs).await.unwrap();
        world.create("a", verb, "ours").await;
        let (engine, _) = world.engine().await;
        let outcome = engine.reconcile("mirror", &Key::new("default", "a")).await.unwrap();
        assert!(
            matches!(&outcome, Outcome::Waiting(why) if why.contains("it exists and belongs to another owner")),
            "{outcome:?}"
        );
        assert_eq!(world.maps().get("a-copy").await.unwrap().resource_version(), theirs.resource_version());
        assert_eq!(world.maps().get("a").await.unwrap().annotations()["refused"], "Conflict");

        world.maps().delete("a-copy", &kube::api::DeleteParams::default()).await.unwrap();
        engine.refresh().await.unwrap();
        world.clock.set(engine.next_timer().expect("a look after 30 s at the latest"));
        engine.drain(10).await;
        assert_eq!(world.text("a-copy").await.as_deref(), Some("ours"), "{verb}: it recovers by itself");
    }
}

#[tokio::test]
async fn a_foreign_object_that_the_cache_has_not_seen_is_safe_too() {
    for verb in ["apply", "create"] {
        let world = World::start().await;
        world.create("a", verb, "ours").await;
        let (engine, _) = world.engine().await;
        let theirs = json!({"metadata": {"name": "a-copy"}, "data": {"text": "theirs"}});
        world.maps().create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();
        let outcome = engine.reconcile("mirror", &Key::new("default", "a")).await.unwrap();
        assert!(matches!(outcome, Outcome::Waiting(_)), "{verb}: {outcome:?}");
        assert_eq!(world.text("a-copy").await.as_deref(), Some("theirs"), "{verb}");
    }
}

#[tokio::test]
async fn a_decision_from_an_old_version_is_refused_and_made_again() {
    let world = World::start().await;
    world.create("a", "sign", "old").await;
    let (engine, control) = world.engine().await;
    world.merge("a", json!({"data": {"text": "new"}})).await;
    // The cache still shows the old text: the first write must not go through.
    engine.reconcile("mirror", &Key::new("default", "a")).await.unwrap();
    assert!(!world.maps().get("a").await.unwrap().annotations().contains_key("signed"));
    engine.drain(10).await;
    assert_eq!(world.maps().get("a").await.unwrap().annotations()["signed"], "new");
    assert_eq!(control.writes(), 2);
}

#[tokio::test]
async fn a_refusal_for_good_is_told_and_waits_for_a_change() {
    let world = World::start().await;
    world.create("a", "invalid", "x").await;
    let (engine, _) = world.engine().await;
    let outcome = engine.reconcile("mirror", &Key::new("default", "a")).await.unwrap();
    assert!(matches!(&outcome, Outcome::Permanent(why) if why.contains("Not A Name")), "{outcome:?}");
    assert_eq!((engine.drain(10).await, engine.next_timer()), (0, None), "telling it is no reason to try again");
    engine.reconcile("mirror", &Key::new("default", "a")).await.unwrap();
    let events = Api::<Event>::default_namespaced(world.plane.client());
    let events = events.list(&ListParams::default().fields("involvedObject.name=a")).await.unwrap();
    let event = &events.items[0];
    assert_eq!((event.reason.as_deref(), event.type_.as_deref()), (Some("Invalid"), Some("Warning")));
    assert!(
        event.series.as_ref().is_some_and(|series| series.count == Some(2)),
        "the second refusal joins the first: {event:?}"
    );
}

#[tokio::test]
async fn transient_failures_back_off_from_five_seconds_to_five_minutes() {
    let world = World::start().await;
    world.create("a", "retry", "x").await;
    let (engine, _) = world.engine().await;
    let mut waits = Vec::new();
    for _ in 0..8 {
        assert_eq!(engine.drain(10).await, 1);
        let due = engine.next_timer().unwrap();
        waits.push(due.duration_since(orrery_engine::Clock::now(&world.clock)).as_secs());
        world.clock.set(due);
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
}
