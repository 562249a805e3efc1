use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::deployments::deployment;

/// The ready addresses and the port of the Service's only slice.
fn reached(slice: &EndpointSlice) -> (usize, usize) {
    let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.as_ref().unwrap().ready == Some(true));
    (ready.count(), slice.endpoints.len())
}

#[tokio::test]
async fn a_service_leads_to_its_ready_pods() {
    let cluster = Cluster::start().await;
    let ports = json!([{"name": "http", "port": 80, "targetPort": "web"}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": ports}});
    cluster.create::<Service>(service).await;
    let mut web = deployment("web", "v1", &json!({"replicas": 2}));
    web["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 4096}]);
    cluster.create::<k8s_openapi::api::apps::v1::Deployment>(web).await;
    let name = loop {
        let slices = cluster
            .api::<EndpointSlice>()
            .list(&ListParams::default().labels("kubernetes.io/service-name=web"))
            .await
            .unwrap();
        if let Some(slice) = slices.items.first() {
            break slice.name_any();
        }
        tokio::task::yield_now().await;
    };
    let slice = cluster.until::<EndpointSlice>(&name, |slice| reached(slice) == (2, 2)).await;
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(4096));
    assert_eq!(slice.ports.as_ref().unwrap()[0].name.as_deref(), Some("http"));

    // A Pod that is not ready stays in the slice, but gets nothing.
    let pod = cluster.names::<Pod>().await.remove(0);
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    cluster
        .api::<Pod>()
        .patch_status(&pod, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(unready))
        .await
        .unwrap();
    cluster.until::<EndpointSlice>(&name, |slice| reached(slice) == (1, 2)).await;

    cluster.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    cluster.gone::<EndpointSlice>(&name).await;
}
