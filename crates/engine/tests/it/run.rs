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

/// With rights in one namespace only: whoever asks for all of them is refused, and sees nothing.
#[tokio::test]
async fn caches_can_be_limited_to_namespaces() {
    let world = World::start().await;
    let client = world.plane.client();
    let user = apiserver::user::User::service_account("team", "robot", "");
    let make = async |path: &str, object: serde_json::Value| {
        let body = object.to_string().into_bytes();
        let request = http::Request::post(path).header("Content-Type", "application/json").body(body).unwrap();
        client.request::<serde_json::Value>(request).await.unwrap();
    };
    make("/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/team";
    let rule =
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"]});
    make(&format!("{roles}/roles"), json!({"metadata": {"name": "robot"}, "rules": [rule]})).await;
    let subject = json!({"kind": "ServiceAccount", "namespace": "team", "name": "robot"});
    let granted = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "robot"});
    make(
        &format!("{roles}/rolebindings"),
        json!({"metadata": {"name": "robot"}, "roleRef": granted, "subjects": [subject]}),
    )
    .await;
    world.create("a", "apply", "elsewhere").await;
    let options = Options { namespaces: vec!["team".into()], ..Options::default() };
    let stop = CancellationToken::new();
    let engine = Engine::new(world.plane.client_as(user), RealClock::shared(), options).with(Mirror);
    let running = tokio::spawn(engine.run(None, stop.clone()));
    let original = json!({"metadata": {"name": "b", "labels": {"mirror": "apply"}}, "data": {"text": "here"}});
    make("/api/v1/namespaces/team/configmaps", original).await;
    let maps = kube::Api::<ConfigMap>::namespaced(client.clone(), "team");
    await_condition(maps, "b-copy", |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
    stop.cancel();
    running.await.unwrap();
    assert!(world.text("a-copy").await.is_none(), "other namespaces are not its business");
}
