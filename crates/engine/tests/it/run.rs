use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::wait::await_condition;
use orrery_engine::{Engine, Options, RealClock};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{Mirror, World};

async fn copied(world: &World, name: &str, text: &str) {
    let says = |map: Option<&ConfigMap>| map.is_some_and(|map| map.data.as_ref().unwrap()["text"] == text);
    await_condition(world.maps(), &format!("{name}-copy"), says).await.unwrap();
}

#[tokio::test]
async fn in_the_background_changes_lead_to_action_without_being_asked() {
    let world = World::start().await;
    world.create("before", "apply", "one").await;
    let stop = CancellationToken::new();
    let engine = Engine::new(world.plane.client(), RealClock::shared(), Options { workers: 4, ..Options::default() });
    let running = tokio::spawn(engine.with(Mirror).run(None, stop.clone()));
    copied(&world, "before", "one").await;
    world.create("after", "apply", "one").await;
    copied(&world, "after", "one").await;
    world.merge("before", json!({"data": {"text": "two"}})).await;
    copied(&world, "before", "two").await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn caches_can_be_limited_to_namespaces() {
    let world = World::start().await;
    world.create("a", "apply", "one").await;
    let options = Options { namespaces: vec!["elsewhere".into()], ..Options::default() };
    let engine = Engine::new(world.plane.client(), std::sync::Arc::new(world.clock.clone()), options).with(Mirror);
    engine.refresh().await.unwrap();
    assert_eq!(engine.drain(10).await, 0);
    assert!(world.text("a-copy").await.is_none());
}
