use kube::api::ListParams;

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
