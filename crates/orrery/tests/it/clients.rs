//! kube-rs over TLS, as any controller outside the process uses it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Client, Config, ResourceExt as _};
use rstest::rstest;

use crate::plane::Plane;

async fn client(plane: &Plane) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn map(name: &str) -> ConfigMap {
    let labels = BTreeMap::from([("test".to_owned(), "yes".to_owned())]);
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

#[rstest]
#[case::list_then_watch(watcher::Config::default())]
#[case::streaming_list(watcher::Config::default().streaming_lists())]
#[tokio::test]
async fn a_watcher_sees_what_was_and_what_comes(#[case] config: watcher::Config) {
    let plane = Plane::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&plane).await);
    for number in 0..5 {
        maps.create(&PostParams::default(), &map(&format!("before-{number}"))).await.unwrap();
    }
    let mut seen = watcher(maps.clone(), config.labels("test=yes")).applied_objects().boxed();
    for number in 0..5 {
        assert_eq!(seen.try_next().await.unwrap().unwrap().name_any(), format!("before-{number}"));
    }
    maps.create(&PostParams::default(), &map("after")).await.unwrap();
    assert_eq!(seen.try_next().await.unwrap().unwrap().name_any(), "after");
}

#[tokio::test]
async fn a_reflector_follows() {
    let plane = Plane::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&plane).await);
    let (reader, writer) = reflector::store();
    // Every event, also the one that ends the first list: only with it the store shows the list.
    let mut stream = reflector(writer, watcher(maps.clone(), watcher::Config::default().labels("test=yes"))).boxed();
    let names = || {
        let mut names: Vec<String> = reader.state().iter().map(|map| map.name_any()).collect();
        names.sort();
        names
    };
    maps.create(&PostParams::default(), &map("one")).await.unwrap();
    maps.create(&PostParams::default(), &map("two")).await.unwrap();
    while names() != ["one", "two"] {
        stream.try_next().await.unwrap().unwrap();
    }
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    while names() != ["two"] {
        stream.try_next().await.unwrap().unwrap();
    }
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] kube::Error);

#[tokio::test]
async fn a_controller_reconciles_with_server_side_apply() {
    let plane = Plane::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&plane).await);
    maps.create(&PostParams::default(), &map("desired")).await.unwrap();
    let reconcile = async |object: Arc<ConfigMap>, maps: Arc<Api<ConfigMap>>| {
        let mut done = map(&object.name_any());
        done.metadata.labels = None;
        done.data = Some(BTreeMap::from([("seen".into(), "yes".into())]));
        let done = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": done.data });
        maps.patch(&object.name_any(), &PatchParams::apply("test"), &Patch::Apply(done)).await?;
        Ok::<_, Failed>(Action::await_change())
    };
    let controller = Controller::new(maps.clone(), watcher::Config::default().labels("test=yes")).run(
        reconcile,
        |_, _, _| Action::requeue(Duration::from_secs(1)),
        Arc::new(maps.clone()),
    );
    let done = async {
        kube::runtime::wait::await_condition(maps.clone(), "desired", |map: Option<&ConfigMap>| {
            map.and_then(|map| map.data.as_ref()).is_some_and(|data| data.contains_key("seen"))
        })
        .await
        .unwrap();
    };
    tokio::select! {
        () = controller.for_each(|result| async { drop(result.unwrap()) }) => panic!("the controller ended"),
        () = done => {}
    }
}
