use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::cluster::Cluster;

pub fn deployment(name: &str, image: &str, spec: &Value) -> Value {
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}},
    });
    for (field, wanted) in spec.as_object().unwrap() {
        value["spec"][field] = wanted.clone();
    }
    value
}

pub fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn condition(deployment: &Deployment, type_: &str) -> Option<(String, String)> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone().unwrap_or_default()))
}

/// What `kubectl rollout status` waits for.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().unwrap().replicas;
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && condition(deployment, "Progressing") == Some(("True".into(), "NewReplicaSetAvailable".into()))
}

async fn running_images(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let alive = pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut images: Vec<String> =
        alive.map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect();
    images.sort();
    images
}

#[tokio::test]
async fn a_deployment_rolls_out_rolls_on_and_rolls_back() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment("web", "v1", &json!({}))).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    assert_eq!(running_images(&cluster).await, ["v1", "v1", "v1"]);

    cluster
        .api::<Deployment>()
        .patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Strategic(image("v2")))
        .await
        .unwrap();
    cluster
        .until::<Deployment>("web", |web| {
            is_rolled_out(web) && web.annotations()["deployment.kubernetes.io/revision"] == "2"
        })
        .await;
    assert_eq!(running_images(&cluster).await, ["v2", "v2", "v2"]);

    cluster
        .api::<Deployment>()
        .patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Strategic(image("v1")))
        .await
        .unwrap();
    let web = cluster
        .until::<Deployment>("web", |web| {
            is_rolled_out(web) && web.annotations()["deployment.kubernetes.io/revision"] == "3"
        })
        .await;
    assert_eq!(running_images(&cluster).await, ["v1", "v1", "v1"]);
    assert_eq!(cluster.names::<ReplicaSet>().await.len(), 2, "the first is used again");
    let scaled = |(reason, note): &(String, String)| reason == "ScalingReplicaSet" && note.ends_with("from 0 to 3");
    cluster.until_event("Deployment", &web.name_any(), scaled).await;
}

#[tokio::test]
async fn a_bad_image_is_reported_and_the_old_pods_keep_serving() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment("web", "v1", &json!({"progressDeadlineSeconds": 2}))).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    cluster
        .api::<Deployment>()
        .patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Strategic(image("broken")))
        .await
        .unwrap();
    let stuck = Some(("False".to_owned(), "ProgressDeadlineExceeded".to_owned()));
    let web = cluster.until::<Deployment>("web", |web| condition(web, "Progressing") == stuck).await;
    let status = web.status.unwrap();
    assert_eq!((status.available_replicas, status.updated_replicas, status.replicas), (Some(3), Some(1), Some(4)));
}

#[tokio::test]
async fn pods_that_are_deleted_come_back_and_scaling_to_nothing_ends_them_all() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment("web", "v1", &json!({}))).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    let victim = cluster.names::<Pod>().await.remove(0);
    cluster.api::<Pod>().delete(&victim, &kube::api::DeleteParams::default()).await.unwrap();
    cluster.gone::<Pod>(&victim).await;
    cluster.until::<Deployment>("web", |web| web.status.as_ref().unwrap().available_replicas == Some(3)).await;

    cluster.merge::<Deployment>("web", json!({"spec": {"replicas": 0}})).await;
    cluster
        .until::<Deployment>("web", |web| {
            let status = web.status.as_ref().unwrap();
            status.replicas.is_none() && status.observed_generation == web.metadata.generation
        })
        .await;
    for pod in cluster.names::<Pod>().await {
        cluster.gone::<Pod>(&pod).await;
    }
}
