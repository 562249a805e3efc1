use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use serde_json::{Value, json};

use crate::cluster::{Cluster, NODE};

pub fn pod(name: &str, spec: &Value) -> Value {
    let mut value = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "v1"}]},
    });
    for (field, wanted) in spec.as_object().unwrap() {
        value["spec"][field] = wanted.clone();
    }
    value
}

fn scheduled(pod: &Pod) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    Some((found.status.clone(), found.message.clone().unwrap_or_default()))
}

#[tokio::test]
async fn a_namespace_has_its_account_and_the_root_certificate() {
    let cluster = Cluster::start().await;
    cluster.until::<ServiceAccount>("default", |_| true).await;
    let map = cluster.until::<ConfigMap>("kube-root-ca.crt", |_| true).await;
    assert_eq!(map.data.unwrap()["ca.crt"], "the root");
    cluster.api::<ServiceAccount>().delete("default", &kube::api::DeleteParams::default()).await.unwrap();
    cluster.until::<ServiceAccount>("default", |_| true).await;
    cluster.merge::<ConfigMap>("kube-root-ca.crt", json!({"data": {"ca.crt": "a lie"}})).await;
    cluster.until::<ConfigMap>("kube-root-ca.crt", |map| map.data.as_ref().unwrap()["ca.crt"] == "the root").await;
}

#[tokio::test]
async fn a_pod_waits_for_a_node_and_says_so() {
    let cluster = Cluster::without_node().await;
    cluster.create::<Pod>(pod("p", &json!({}))).await;
    let waiting = cluster.until::<Pod>("p", |pod| scheduled(pod).is_some()).await;
    assert_eq!(scheduled(&waiting), Some(("False".into(), "no nodes available to schedule pods".into())));
    cluster.add_node(NODE).await;
    let running =
        cluster.until::<Pod>("p", |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).await;
    assert_eq!(running.spec.unwrap().node_name.as_deref(), Some(NODE));
    // Events follow the work they tell of.
    cluster.until_event("Pod", "p", |(reason, _)| reason == "FailedScheduling").await;
    let assigned = ("Scheduled".to_owned(), "Successfully assigned default/p to here".to_owned());
    cluster.until_event("Pod", "p", |event| *event == assigned).await;
}

#[tokio::test]
async fn a_pod_that_does_not_fit_starts_when_another_ends() {
    let cluster = Cluster::start().await;
    let hungry = json!({"containers": [{"name": "c", "image": "v1", "resources": {"requests": {"cpu": "3"}}}]});
    cluster.create::<Pod>(pod("first", &hungry)).await;
    cluster.until::<Pod>("first", |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).await;
    cluster.create::<Pod>(pod("second", &hungry)).await;
    let waiting = cluster.until::<Pod>("second", |pod| scheduled(pod).is_some()).await;
    assert!(scheduled(&waiting).unwrap().1.starts_with("0/1 nodes are available: 1 Insufficient cpu."));
    cluster.api::<Pod>().delete("first", &kube::api::DeleteParams::default()).await.unwrap();
    cluster.until::<Pod>("second", |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")).await;
}
