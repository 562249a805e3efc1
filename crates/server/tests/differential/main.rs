//! The scenarios of `tests/it`, in front of a real kube-apiserver.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

#[path = "../it/isolation.rs"]
mod isolation;
#[path = "../it/routes.rs"]
mod routes;
#[path = "../it/world.rs"]
mod world;

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use testkit::controller_manager::kubeconfig_of;
use testkit::kubernetes::Kubernetes;
use world::World;

#[tokio::test(flavor = "multi_thread")]
async fn every_route_in_front_of_kubernetes() {
    // Another test of this process may have chosen it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let assets =
        std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from).expect("run this with `make test-kubernetes`");
    let directory = tempfile::tempdir().unwrap();
    let kubernetes = Kubernetes::start(&assets, directory.path()).unwrap();
    let config = Kubeconfig::from_yaml(&kubeconfig_of(&kubernetes)).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    let ready = async {
        while namespaces.get_opt("default").await.ok().flatten().is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), ready).await.expect("kube-apiserver starts");

    let world = World::on(client, Box::new((kubernetes, directory))).await;
    routes::objects(&world).await;
    routes::actions(&world).await;
    routes::packs(&world).await;
    routes::singles(&world).await;
    routes::refusals(&world).await;
    routes::stream(&world).await;
    routes::search(&world).await;
    routes::kept_logs(&world).await;
    isolation::one_namespace(&world).await;
}
