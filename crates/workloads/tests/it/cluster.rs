//! A plane with the controllers running, one node, and a stand-in for what runs Pods on it.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::Plane;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Long enough for a slow machine: no test waits this long unless it fails.
const PATIENCE: Duration = Duration::from_mins(3);
pub const NODE: &str = "here";

pub struct Cluster {
    pub client: Client,
    _plane: Plane,
    _tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Cluster {
    /// With a node that has room for anything.
    pub async fn start() -> Self {
        let cluster = Self::without_node().await;
        cluster.add_node(NODE).await;
        cluster
    }

    pub async fn without_node() -> Self {
        let plane = Plane::start().await;
        let client = plane.client();
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let options = orrery_workloads::Options {
            root_certificate: "the root".into(),
            workers: 2,
            ..orrery_workloads::Options::default()
        };
        tasks.spawn(orrery_workloads::start(client.clone(), engine::RealClock::shared(), options, stop.clone()));
        tasks.spawn(run_pods(client.clone()));
        Self { client, _plane: plane, _tasks: tasks, stop }
    }

    pub async fn add_node(&self, name: &str) {
        let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "200"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.create_global::<Node>(node).await;
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn create_global<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        Api::<K>::all(self.client.clone()).create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn merge<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    /// Waits until an object in `default` is as described.
    pub async fn until<K>(&self, name: &str, holds: impl Fn(&K) -> bool + Send) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug
            + Send
            + Sync
            + 'static,
    {
        wait_for(self.api::<K>(), name, holds).await
    }

    /// Waits until an object in `default` does not exist.
    pub async fn gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let gone = await_condition(self.api::<K>(), name, |object: Option<&K>| object.is_none());
        let Ok(done) = tokio::time::timeout(PATIENCE, gone).await else {
            panic!("{name} is still there: {:#?}", self.api::<K>().get_opt(name).await)
        };
        done.unwrap();
    }

    pub async fn names<K>(&self) -> Vec<String>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        let list = self.api::<K>().list(&ListParams::default()).await.unwrap();
        list.items.iter().map(ResourceExt::name_any).collect()
    }

    /// Waits until an Event about an object is as described.
    pub async fn until_event(&self, kind: &str, name: &str, holds: impl Fn(&(String, String)) -> bool) {
        let seen = async {
            while !self.events(kind, name).await.iter().any(&holds) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        assert!(seen.is_ok(), "no such Event about {name}: {:?}", self.events(kind, name).await);
    }

    /// What the Events say about an object.
    pub async fn events(&self, kind: &str, name: &str) -> Vec<(String, String)> {
        let about = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let list = self.api::<Event>().list(&ListParams::default().fields(&about)).await.unwrap();
        let told = |event: Event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        list.items.into_iter().map(told).collect()
    }
}

pub async fn wait_for<K>(api: Api<K>, name: &str, holds: impl Fn(&K) -> bool + Send) -> K
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    let condition = await_condition(api.clone(), name, |object: Option<&K>| object.is_some_and(&holds));
    let Ok(found) = tokio::time::timeout(PATIENCE, condition).await else {
        panic!("waited in vain for {name}: {:#?}", api.get_opt(name).await)
    };
    found.unwrap().expect("the condition needs one")
}

/// Brings Pods up and takes them down, as a node would; those with the image `broken` never become ready.
async fn run_pods(client: Client) {
    let all = Api::<Pod>::all(client.clone());
    let mut pods = watcher(all, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let mut address = 0;
    while let Some(pod) = pods.next().await {
        let Ok(pod) = pod else { continue };
        let spec = pod.spec.clone().unwrap_or_default();
        if spec.node_name.is_none() {
            continue;
        }
        let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap());
        if pod.metadata.deletion_timestamp.is_some() {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            let _ = api.delete(&pod.name_any(), &now).await;
            continue;
        }
        if pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some()) {
            continue;
        }
        address += 1;
        let ready = if spec.containers[0].image.as_deref() == Some("broken") { "False" } else { "True" };
        let now = jiff::Timestamp::now();
        let scheduled = json!({"type": "PodScheduled", "status": "True"});
        let status = json!({"status": {
            "phase": "Running", "podIP": format!("10.1.0.{address}"), "podIPs": [{"ip": format!("10.1.0.{address}")}],
            "conditions": [scheduled, {"type": "Ready", "status": ready, "lastTransitionTime": now.to_string()}],
        }});
        let _ = api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
    }
}
