use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::{ApiResource, WatchEvent};

use crate::world::{Fault, World};

#[tokio::test]
async fn a_lost_request_or_answer_ends_in_the_same_state() {
    for verb in ["apply", "create"] {
        for fault in [Fault::Before, Fault::After] {
            let world = World::start().await;
            world.create("a", verb, "one").await;
            let (engine, control) = world.engine().await;
            control.fail(0, fault);
            engine.drain(10).await;
            world.clock.set(engine.next_timer().expect("a retry"));
            engine.drain(10).await;
            assert_eq!(world.text("a-copy").await.as_deref(), Some("one"), "{verb} {fault:?}");
            assert_eq!(world.maps().list(&ListParams::default()).await.unwrap().items.len(), 2, "{verb} {fault:?}");
        }
    }
}

#[tokio::test]
async fn two_leaders_with_caches_of_different_ages_make_one_object() {
    for verb in ["apply", "create"] {
        let world = World::start().await;
        world.create("a", verb, "one").await;
        let (first, _) = world.engine().await;
        let (second, _) = world.engine().await;
        first.drain(10).await;
        let made = world.maps().get("a-copy").await.unwrap();
        // The second still believes that there is none.
        second.drain(10).await;
        let now = world.maps().get("a-copy").await.unwrap();
        assert_eq!((&now.metadata.uid, &now.data), (&made.metadata.uid, &made.data), "{verb}");
    }
}

#[tokio::test]
async fn a_controller_sees_its_own_writes_before_the_watch_does() {
    let world = World::start().await;
    world.create("a", "create", "one").await;
    let (engine, control) = world.engine().await;
    for _ in 0..5 {
        engine.reconcile("mirror", &orrery_engine::Key::new("default", "a")).await.unwrap();
    }
    assert_eq!(control.writes(), 1, "no watch event ever came, and yet it was made once");
}

#[tokio::test]
async fn an_object_that_is_gone_behind_the_cache_is_made_again_and_nothing_is_refused() {
    let world = World::start().await;
    world.create("a", "apply", "one").await;
    let (engine, _) = world.engine().await;
    engine.drain(10).await;
    world.maps().delete("a-copy", &kube::api::DeleteParams::default()).await.unwrap();
    let changed = world.merge("a", serde_json::json!({"data": {"text": "two"}})).await;
    // Of the two changes only one is heard of: the apply is for a version of something that is not there.
    let event = WatchEvent::Modified(serde_json::to_value(changed).unwrap());
    engine.deliver(&ApiResource::erase::<ConfigMap>(&()), &event);
    engine.drain(10).await;
    assert_eq!(world.text("a-copy").await.as_deref(), Some("two"));
    assert!(!world.maps().get("a").await.unwrap().annotations().contains_key("refused"));
}
