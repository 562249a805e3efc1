use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use crate::cluster::{Cluster, NODE, wait_for};
use crate::deployments::deployment;
use crate::scheduling::pod;

#[tokio::test]
async fn a_namespace_goes_with_everything_in_it_and_says_what_holds_it() {
    let cluster = Cluster::start().await;
    let namespaces = Api::<Namespace>::all(cluster.client.clone());
    cluster
        .create_global::<Namespace>(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}))
        .await;
    let deployments = Api::<Deployment>::namespaced(cluster.client.clone(), "team");
    let web: Deployment = serde_json::from_value(deployment("web", "v1", &json!({}))).unwrap();
    deployments.create(&PostParams::default(), &web).await.unwrap();
    wait_for(deployments, "web", |web: &Deployment| {
        web.status.as_ref().is_some_and(|status| status.available_replicas == Some(3))
    })
    .await;
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), "team");
    let held: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})).unwrap();
    maps.create(&PostParams::default(), &held).await.unwrap();

    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let waiting = wait_for(namespaces.clone(), "team", |namespace: &Namespace| {
        let conditions = namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|condition| {
            condition.type_ == "NamespaceFinalizersRemaining"
                && condition
                    .message
                    .as_deref()
                    .is_some_and(|message| message.contains("example.com/hold in 1 resource"))
        })
    })
    .await;
    assert_eq!(waiting.status.unwrap().phase.as_deref(), Some("Terminating"));
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    let gone = await_condition(namespaces, "team", |namespace: Option<&Namespace>| namespace.is_none());
    tokio::time::timeout(std::time::Duration::from_mins(3), gone).await.expect("it goes").unwrap();
    let left = Api::<Pod>::namespaced(cluster.client.clone(), "team").list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty());
}

#[tokio::test]
async fn pods_of_a_deleted_node_are_ended() {
    let cluster = Cluster::start().await;
    cluster.create::<Pod>(pod("p", &json!({}))).await;
    cluster.until::<Pod>("p", |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).await;
    Api::<Node>::all(cluster.client.clone()).delete(NODE, &DeleteParams::default()).await.unwrap();
    cluster.gone::<Pod>("p").await;
}
