use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::deployments::deployment;

async fn deployed() -> (Cluster, String, Vec<String>) {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment("web", "v1", &json!({}))).await;
    cluster
        .until::<Deployment>("web", |web| {
            web.status.as_ref().is_some_and(|status| status.available_replicas == Some(3))
        })
        .await;
    let set = cluster.names::<ReplicaSet>().await.remove(0);
    let pods = cluster.names::<Pod>().await;
    (cluster, set, pods)
}

#[tokio::test]
async fn background_deletion_takes_the_whole_tree() {
    let (cluster, set, pods) = deployed().await;
    cluster.api::<Deployment>().delete("web", &DeleteParams::background()).await.unwrap();
    cluster.gone::<ReplicaSet>(&set).await;
    for pod in pods {
        cluster.gone::<Pod>(&pod).await;
    }
}

#[tokio::test]
async fn foreground_deletion_ends_the_owner_last() {
    let (cluster, set, pods) = deployed().await;
    cluster.api::<Deployment>().delete("web", &DeleteParams::foreground()).await.unwrap();
    cluster.gone::<Deployment>("web").await;
    // Whatever held it up was gone before.
    assert!(!cluster.names::<ReplicaSet>().await.contains(&set));
    let left = cluster.names::<Pod>().await;
    assert!(!pods.iter().any(|pod| left.contains(pod)));
}

#[tokio::test]
async fn orphans_stay_and_are_adopted_by_a_successor() {
    let (cluster, set, pods) = deployed().await;
    cluster.api::<Deployment>().delete("web", &DeleteParams::orphan()).await.unwrap();
    cluster.gone::<Deployment>("web").await;
    let orphan = cluster.api::<ReplicaSet>().get(&set).await.unwrap();
    assert!(orphan.owner_references().is_empty());
    cluster.create::<Deployment>(deployment("web", "v1", &json!({}))).await;
    cluster.until::<ReplicaSet>(&set, |set| !set.owner_references().is_empty()).await;
    cluster
        .until::<Deployment>("web", |web| {
            web.status.as_ref().is_some_and(|status| status.available_replicas == Some(3))
        })
        .await;
    let mut now = cluster.names::<Pod>().await;
    now.sort();
    let mut before = pods;
    before.sort();
    assert_eq!(now, before, "the same Pods all along");
}

#[tokio::test]
async fn a_reference_to_a_reborn_owner_is_dangling() {
    let cluster = Cluster::start().await;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let owner = cluster.create::<ConfigMap>(map("owner")).await;
    let mut orphan = map("child");
    orphan["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "another-uid"}]);
    cluster.create::<ConfigMap>(orphan).await;
    cluster.gone::<ConfigMap>("child").await;

    let mut both = map("child");
    both["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "another-uid"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()},
    ]);
    cluster.create::<ConfigMap>(both).await;
    let kept = cluster.until::<ConfigMap>("child", |child| child.owner_references().len() == 1).await;
    assert_eq!(kept.owner_references()[0].uid, owner.uid().unwrap());
    assert_eq!(cluster.api::<ConfigMap>().list(&ListParams::default()).await.unwrap().items.len(), 3);
}
