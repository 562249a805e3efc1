use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::scheduling::pod;

fn claim(name: &str, spec: &Value) -> Value {
    let mut value = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (field, wanted) in spec.as_object().unwrap() {
        value["spec"][field] = wanted.clone();
    }
    value
}

fn phase(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.status.as_ref()?.phase.as_deref()
}

fn using(name: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]})
}

#[tokio::test]
async fn a_claim_is_bound_with_its_size_and_kept_while_a_pod_uses_it() {
    let cluster = Cluster::start().await;
    cluster.create::<PersistentVolumeClaim>(claim("data", &json!({}))).await;
    let bound = cluster.until::<PersistentVolumeClaim>("data", |claim| phase(claim) == Some("Bound")).await;
    assert_eq!(bound.status.as_ref().unwrap().capacity.as_ref().unwrap()["storage"].0, "1Gi");
    assert_eq!(bound.spec.as_ref().unwrap().volume_name, Some(format!("pvc-{}", bound.uid().unwrap())));

    cluster.create::<Pod>(pod("user", &using("data"))).await;
    cluster.until::<Pod>("user", |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).await;
    cluster.api::<PersistentVolumeClaim>().delete("data", &DeleteParams::default()).await.unwrap();
    // A later claim of the same kind shows that the controller has passed this one by.
    cluster.create::<PersistentVolumeClaim>(claim("later", &json!({}))).await;
    cluster.until::<PersistentVolumeClaim>("later", |claim| phase(claim) == Some("Bound")).await;
    let held = cluster.api::<PersistentVolumeClaim>().get("data").await.unwrap();
    assert_eq!(held.finalizers(), ["kubernetes.io/pvc-protection"]);
    cluster.api::<Pod>().delete("user", &DeleteParams::default()).await.unwrap();
    cluster.gone::<PersistentVolumeClaim>("data").await;
}

#[tokio::test]
async fn an_unknown_class_keeps_claim_and_pod_pending_with_the_reason() {
    let cluster = Cluster::start().await;
    cluster.create::<PersistentVolumeClaim>(claim("fast", &json!({"storageClassName": "nvme"}))).await;
    cluster.create::<Pod>(pod("user", &using("fast"))).await;
    let waiting =
        cluster.until::<Pod>("user", |pod| pod.status.as_ref().is_some_and(|status| status.conditions.is_some())).await;
    let message = waiting.status.unwrap().conditions.unwrap()[0].message.clone().unwrap();
    assert!(message.contains("pod has unbound immediate PersistentVolumeClaims"), "{message}");
    let refused = |(reason, note): &(String, String)| {
        reason == "ProvisioningFailed" && note == "storageclass.storage.k8s.io \"nvme\" not found"
    };
    cluster.until_event("PersistentVolumeClaim", "fast", refused).await;
}

#[tokio::test]
async fn a_claim_goes_with_its_owner_and_not_before_its_last_pod() {
    let cluster = Cluster::start().await;
    let owner = cluster
        .create::<ConfigMap>(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}))
        .await;
    let mut data = claim("data", &json!({}));
    data["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid().unwrap()}]);
    cluster.create::<PersistentVolumeClaim>(data).await;
    cluster.create::<PersistentVolumeClaim>(claim("other", &json!({}))).await;
    cluster.create::<Pod>(pod("user", &using("data"))).await;
    cluster.until::<Pod>("user", |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).await;
    cluster.api::<ConfigMap>().delete("owner", &DeleteParams::default()).await.unwrap();
    let leaving = |claim: &PersistentVolumeClaim| claim.metadata.deletion_timestamp.is_some();
    let held = cluster.until::<PersistentVolumeClaim>("data", leaving).await;
    assert_eq!(held.finalizers(), ["kubernetes.io/pvc-protection"], "a Pod has it");
    cluster.api::<Pod>().delete("user", &DeleteParams::default()).await.unwrap();
    cluster.gone::<PersistentVolumeClaim>("data").await;
    assert_eq!(cluster.names::<PersistentVolumeClaim>().await, ["other"]);
}
