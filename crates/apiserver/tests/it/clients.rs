//! kube-rs, as controllers use it, without a socket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use serde_json::json;
use testkit::Plane;

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some(name.into()), ..Default::default() },
        data: Some(BTreeMap::from([("a".into(), "1".into())])),
        ..Default::default()
    }
}

#[tokio::test]
async fn typed_clients_do_all_verbs() {
    let plane = Plane::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let mut one = maps.get("a").await.unwrap();
    one.data.as_mut().unwrap().insert("b".into(), "2".into());
    maps.replace("a", &PostParams::default(), &one).await.unwrap();
    let apply = Patch::Apply(json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "c": "3" } }));
    let applied = maps.patch("a", &PatchParams::apply("test"), &apply).await.unwrap();
    assert_eq!(applied.data.unwrap().len(), 3);
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert_eq!(maps.list_metadata(&ListParams::default()).await.unwrap().items.len(), 1);
    assert!(maps.delete("a", &DeleteParams::default()).await.unwrap().is_right());
    assert!(maps.get_opt("a").await.unwrap().is_none());
    let namespaces: Api<Namespace> = Api::all(plane.client());
    assert!(namespaces.get_opt("kube-system").await.unwrap().is_some());
    assert_eq!(plane.client().apiserver_version().await.unwrap().major, "1");
}

#[tokio::test]
async fn watchers_follow_with_both_ways_of_listing() {
    let plane = Plane::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    for config in [watcher::Config::default().page_size(1), watcher::Config::default().streaming_lists()] {
        let mut objects = std::pin::pin!(watcher(maps.clone(), config).applied_objects());
        let first = objects.try_next().await.unwrap().unwrap();
        assert_eq!(first.metadata.name.as_deref(), Some("a"));
        let name = format!("b-{}", uuid::Uuid::new_v4());
        maps.create(&PostParams::default(), &map(&name)).await.unwrap();
        while objects.try_next().await.unwrap().unwrap().metadata.name != Some(name.clone()) {}
    }
    let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(plane.client());
    let mut objects = std::pin::pin!(watcher(metadata, watcher::Config::default()).applied_objects());
    assert!(objects.try_next().await.unwrap().is_some());
}

#[tokio::test]
async fn a_reflector_mirrors_the_collection() {
    let plane = Plane::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client());
    let (reader, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(maps.clone(), watcher::Config::default()));
    let task = tokio::spawn(stream.for_each(|_| futures::future::ready(())));
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    reader.wait_until_ready().await.unwrap();
    let reference = ObjectRef::new("a").within("default");
    while reader.get(&reference).is_none() {
        tokio::task::yield_now().await;
    }
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    while reader.get(&reference).is_some() {
        tokio::task::yield_now().await;
    }
    task.abort();
}

#[tokio::test]
async fn a_controller_reconciles_what_it_watches() {
    let plane = Plane::start().await;
    let client = plane.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let reconcile = |object: Arc<ConfigMap>, client: Arc<kube::Client>| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced((*client).clone());
        let name = object.metadata.name.clone().unwrap_or_default();
        let seen = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "annotations": { "seen": "yes" } } });
        maps.patch(&name, &PatchParams::apply("controller"), &Patch::Apply(seen)).await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let retry = |_: Arc<ConfigMap>, _: &kube::Error, _: Arc<kube::Client>| Action::requeue(Duration::from_millis(10));
    let controller = Controller::new(maps.clone(), watcher::Config::default()).run(reconcile, retry, Arc::new(client));
    let task = tokio::spawn(controller.for_each(|_| futures::future::ready(())));
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let annotated = kube::runtime::wait::await_condition(maps, "a", |object: Option<&ConfigMap>| {
        object.and_then(|object| object.metadata.annotations.as_ref()).is_some_and(|all| all.contains_key("seen"))
    });
    annotated.await.unwrap();
    task.abort();
}

#[tokio::test]
async fn logs_without_a_node_are_refused_clearly() {
    let plane = Plane::start().await;
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let pod = serde_json::from_value(
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } }),
    )
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let error = pods.logs("p", &kube::api::LogParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 501), "{error}");
}
