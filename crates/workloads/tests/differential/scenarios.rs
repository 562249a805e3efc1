//! What is played. A scenario acts, waits for what it knows must come, and shows what is then there.

use std::pin::Pin;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::snapshot;

pub type Scenario = fn(Stage) -> Pin<Box<dyn Future<Output = Vec<Value>> + Send>>;

macro_rules! scenarios {
    ($($name:literal => $function:ident),* $(,)?) => {
        pub const ALL: &[(&str, Scenario)] = &[$(($name, |stage| Box::pin($function(stage)))),*];
    };
}

scenarios! {
    "rollout" => rollout,
    "bad-image" => bad_image,
    "paused" => paused,
    "scaling" => scaling,
    "recreate" => recreate,
    "background" => background,
    "foreground" => foreground,
    "orphan" => orphan,
    "endpoints" => endpoints,
    "leaving" => leaving,
    "accounts" => accounts,
}

/// A namespace of one side.
pub struct Stage {
    client: Client,
    namespace: String,
}

impl Stage {
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, plural) = match kind {
            "Deployment" => ("apps", "deployments"),
            "ReplicaSet" => ("apps", "replicasets"),
            "EndpointSlice" => ("discovery.k8s.io", "endpointslices"),
            "Pod" => ("", "pods"),
            "Service" => ("", "services"),
            "ConfigMap" => ("", "configmaps"),
            "ServiceAccount" => ("", "serviceaccounts"),
            other => panic!("unknown kind {other}"),
        };
        let kind = GroupVersionKind::gvk(group, "v1", kind);
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk_with_plural(&kind, plural))
    }

    async fn create(&self, object: Value) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        self.api(&kind).create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn delete(&self, kind: &str, name: &str, options: &DeleteParams) {
        self.api(kind).delete(name, options).await.unwrap();
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    async fn get(&self, kind: &str, name: &str) -> Value {
        self.api(kind).get_opt(name).await.unwrap().map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    /// Waits until what is seen of an object (`null` when it is not there) is as described.
    async fn until(&self, kind: &str, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let object = self.get(kind, name).await;
                if holds(&object) {
                    return object;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let Ok(object) = tokio::time::timeout(Duration::from_mins(2), waiting).await else {
            panic!("{}: waited in vain for {kind} {name}: {:#}", self.namespace, self.get(kind, name).await)
        };
        object
    }

    /// What is seen of the Deployment once it says nothing new for a while.
    async fn rollout(&self) -> Value {
        let mut before = Value::Null;
        let mut same = 0;
        while same < 6 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let now = snapshot::rollout(&self.get("Deployment", "web").await, &self.list("ReplicaSet").await);
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
        before
    }
}

fn web(spec: &Value) -> Value {
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {"team": "a"}},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}}},
    });
    for (field, wanted) in spec.as_object().unwrap() {
        value["spec"][field] = wanted.clone();
    }
    value
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn reason(deployment: &Value) -> Value {
    let conditions = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Progressing").unwrap_or_default()["reason"].clone()
}

/// Rolled out, at this revision.
fn arrived(deployment: &Value, revision: &str) -> bool {
    reason(deployment) == "NewReplicaSetAvailable"
        && deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
        && deployment["status"]["replicas"] == deployment["spec"]["replicas"]
        && deployment["status"]["updatedReplicas"] == deployment["spec"]["replicas"]
        && deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
}

async fn rollout(stage: Stage) -> Vec<Value> {
    stage.create(web(&json!({"revisionHistoryLimit": 1}))).await;
    stage.until("Deployment", "web", |web| arrived(web, "1")).await;
    let mut seen = vec![stage.rollout().await];
    for (image_name, revision) in [("v2", "2"), ("v1", "3"), ("v3", "4")] {
        stage.patch("Deployment", "web", image(image_name)).await;
        stage.until("Deployment", "web", |web| arrived(web, revision)).await;
        seen.push(stage.rollout().await);
    }
    seen
}

async fn bad_image(stage: Stage) -> Vec<Value> {
    stage.create(web(&json!({"progressDeadlineSeconds": 3}))).await;
    stage.until("Deployment", "web", |web| arrived(web, "1")).await;
    stage.patch("Deployment", "web", image("broken")).await;
    stage.until("Deployment", "web", |web| reason(web) == "ProgressDeadlineExceeded").await;
    let mut seen = vec![stage.rollout().await];
    stage.patch("Deployment", "web", image("v1")).await;
    stage.until("Deployment", "web", |web| arrived(web, "3")).await;
    seen.push(stage.rollout().await);
    seen
}

async fn paused(stage: Stage) -> Vec<Value> {
    stage.create(web(&json!({}))).await;
    stage.until("Deployment", "web", |web| arrived(web, "1")).await;
    stage.patch("Deployment", "web", json!({"spec": {"paused": true, "replicas": 5}})).await;
    stage.patch("Deployment", "web", image("v2")).await;
    stage.until("Deployment", "web", |web| web["status"]["availableReplicas"] == 5).await;
    let mut seen = vec![stage.rollout().await];
    stage.patch("Deployment", "web", json!({"spec": {"paused": false}})).await;
    stage.until("Deployment", "web", |web| arrived(web, "2")).await;
    seen.push(stage.rollout().await);
    seen
}

/// In the middle of a rollout that cannot finish, up and down.
async fn scaling(stage: Stage) -> Vec<Value> {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    stage.create(web(&json!({"replicas": 10, "strategy": rolling}))).await;
    stage.until("Deployment", "web", |web| arrived(web, "1")).await;
    stage.patch("Deployment", "web", image("broken")).await;
    stage.until("Deployment", "web", |web| web["status"]["updatedReplicas"] == 5).await;
    let mut seen = vec![stage.rollout().await];
    for replicas in [20, 6, 0] {
        stage.patch("Deployment", "web", json!({"spec": {"replicas": replicas}})).await;
        stage
            .until("Deployment", "web", |web| web["status"]["observedGeneration"] == web["metadata"]["generation"])
            .await;
        seen.push(stage.rollout().await);
    }
    seen
}

async fn recreate(stage: Stage) -> Vec<Value> {
    stage.create(web(&json!({"strategy": {"type": "Recreate"}}))).await;
    stage.until("Deployment", "web", |web| arrived(web, "1")).await;
    stage.patch("Deployment", "web", image("v2")).await;
    stage.until("Deployment", "web", |web| arrived(web, "2")).await;
    vec![stage.rollout().await]
}

async fn deployed(stage: &Stage) -> String {
    stage.create(web(&json!({"replicas": 2}))).await;
    stage.until("Deployment", "web", |web| arrived(web, "1")).await;
    stage.list("ReplicaSet").await[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

async fn background(stage: Stage) -> Vec<Value> {
    let set = deployed(&stage).await;
    let pods = stage.list("Pod").await;
    stage.delete("Deployment", "web", &DeleteParams::background()).await;
    stage.until("ReplicaSet", &set, Value::is_null).await;
    for pod in &pods {
        stage.until("Pod", pod["metadata"]["name"].as_str().unwrap(), Value::is_null).await;
    }
    vec![json!([stage.list("ReplicaSet").await.len(), stage.list("Pod").await.len()])]
}

async fn foreground(stage: Stage) -> Vec<Value> {
    let set = deployed(&stage).await;
    stage.delete("Deployment", "web", &DeleteParams::foreground()).await;
    stage.until("Deployment", "web", Value::is_null).await;
    vec![json!([stage.get("ReplicaSet", &set).await, stage.list("Pod").await.len()])]
}

async fn orphan(stage: Stage) -> Vec<Value> {
    let set = deployed(&stage).await;
    stage.delete("Deployment", "web", &DeleteParams::orphan()).await;
    stage.until("Deployment", "web", Value::is_null).await;
    let left = stage.get("ReplicaSet", &set).await;
    let mut seen = vec![json!([snapshot::owners(&left), stage.list("Pod").await.len()])];
    stage.create(web(&json!({"replicas": 2}))).await;
    stage.until("Deployment", "web", |web| arrived(web, "1")).await;
    seen.push(stage.rollout().await);
    seen
}

async fn endpoints(stage: Stage) -> Vec<Value> {
    let ports =
        json!([{"name": "http", "port": 80, "targetPort": "web"}, {"name": "raw", "port": 81, "targetPort": 9}]);
    let labels = json!({"team": "a"});
    let spec = json!({"selector": {"app": "web"}, "ports": ports});
    stage
        .create(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": labels}, "spec": spec}),
        )
        .await;
    let slice = async || loop {
        if let Some(slice) = stage.list("EndpointSlice").await.into_iter().next() {
            break slice["metadata"]["name"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let name = slice().await;
    let mut seen = vec![snapshot::slice(&stage.get("EndpointSlice", &name).await)];
    let mut deployment = web(&json!({"replicas": 2}));
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 4096}]);
    stage.create(deployment).await;
    let ready = |slice: &Value, count: usize| {
        let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count() == count
    };
    seen.push(snapshot::slice(&stage.until("EndpointSlice", &name, |slice| ready(slice, 2)).await));
    let pod = stage.list("Pod").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    stage.api("Pod").patch_status(&pod, &PatchParams::default(), &Patch::Merge(unready)).await.unwrap();
    seen.push(snapshot::slice(&stage.until("EndpointSlice", &name, |slice| ready(slice, 1)).await));
    stage.patch("Deployment", "web", json!({"spec": {"replicas": 0}})).await;
    let empty = |slice: &Value| slice["endpoints"].as_array().is_none_or(Vec::is_empty);
    seen.push(snapshot::slice(&stage.until("EndpointSlice", &name, empty).await));
    stage.delete("Service", "web", &DeleteParams::default()).await;
    stage.until("EndpointSlice", &name, Value::is_null).await;
    seen
}

/// A namespace that goes, held up by a finalizer on the way.
async fn leaving(stage: Stage) -> Vec<Value> {
    deployed(&stage).await;
    let metadata = json!({"name": "held", "finalizers": ["example.com/hold"]});
    stage.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
    let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(stage.client.clone());
    namespaces.delete(&stage.namespace, &DeleteParams::default()).await.unwrap();
    let condition = |namespace: &k8s_openapi::api::core::v1::Namespace, type_: &str| {
        let conditions = namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == type_)?;
        Some(json!([found.status, found.reason, found.message]))
    };
    let mut held = Value::Null;
    for _ in 0..600 {
        let namespace = namespaces.get(&stage.namespace).await.unwrap();
        let content = condition(&namespace, "NamespaceContentRemaining");
        let alone = content
            .as_ref()
            .and_then(|content| content[2].as_str())
            .is_some_and(|message| message == "Some resources are remaining: configmaps. has 1 resource instances");
        if alone {
            let mut conditions = namespace.status.as_ref().unwrap().conditions.clone().unwrap();
            conditions.sort_by_key(|condition| condition.type_.clone());
            let told = conditions.iter().map(|one| json!([one.type_, one.status, one.reason, one.message]));
            held = json!([told.collect::<Vec<_>>(), namespace.status.as_ref().unwrap().phase]);
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.patch("ConfigMap", "held", json!({"metadata": {"finalizers": null}})).await;
    while namespaces.get_opt(&stage.namespace).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    vec![held]
}

async fn accounts(stage: Stage) -> Vec<Value> {
    let account = stage.until("ServiceAccount", "default", |account| !account.is_null()).await;
    let map = stage.until("ConfigMap", "kube-root-ca.crt", |map| !map.is_null()).await;
    let keys: Vec<String> = map["data"].as_object().unwrap().keys().cloned().collect();
    vec![json!([account["secrets"], account["automountServiceAccountToken"], keys])]
}
