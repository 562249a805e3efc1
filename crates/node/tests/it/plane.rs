//! Pods of an embedded plane that really run.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, LogParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use node::driver::Driver;
use node::images::Images;
use node::network::Network;
use node::process::Process;
use serde_json::{Value, json};
use testkit::Plane;

use crate::support::shim;

pub const NODE: &str = "this-machine";

/// A plane, a node, and Pods on it. Dropping it ends them all.
pub struct World {
    pub plane: Plane,
    pub data: tempfile::TempDir,
    pub driver: Arc<dyn Driver>,
    pub network: Option<Arc<Network>>,
    client: kube::Client,
    handle: Option<node::Handle>,
}

impl World {
    pub async fn new() -> Self {
        Self::with_driver(|pods| Process::new(pods, shim())).await
    }

    pub async fn with_driver(driver: impl FnOnce(std::path::PathBuf) -> Process) -> Self {
        let data = tempfile::tempdir().unwrap();
        let driver: Arc<dyn Driver> = Arc::new(driver(data.path().join("pods")));
        let access = Arc::new(node::Access::new(data.path(), driver.clone()));
        let plane = Plane::with_pods(access).await;
        let client = plane.client();
        let mut world = Self { plane, data, driver, network: None, client, handle: None };
        world.start().await;
        world
    }

    /// With a node that sees its API through a client of the test's own.
    pub async fn with_client(client: impl FnOnce(&Plane) -> kube::Client) -> Self {
        let mut world = Self::new().await;
        world.stop().await;
        world.client = client(&world.plane);
        world.start().await;
        world
    }

    /// With a Pod network; `api` stands for the API's port on this machine.
    pub async fn with_network(api: std::net::SocketAddr) -> Self {
        let mut world = Self::new().await;
        world.stop().await;
        let identity = world.driver.identity(&[]).unwrap();
        let services = (std::net::Ipv4Addr::new(10, 96, 0, 0), 12);
        world.network = Some(Network::open(world.data.path(), &shim(), identity, services, api).await.unwrap());
        world.start().await;
        world
    }

    pub async fn start(&mut self) {
        let config = node::Config {
            client: self.client.clone(),
            name: NODE.into(),
            data: self.data.path().to_owned(),
            driver: self.driver.clone(),
            images: Images::new(Vec::new(), self.data.path()),
            max_pods: 200,
            programs: std::collections::BTreeMap::from([("/opt/orrery/bin/opencode".into(), "/bin/true".into())]),
            network: self.network.clone(),
            api: None,
        };
        self.handle = Some(node::start(config).await.unwrap());
    }

    pub async fn stop(&mut self) {
        self.handle.take().unwrap().stop().await;
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.plane.client(), "default")
    }

    pub async fn create(&self, name: &str, spec: Value) -> Pod {
        let mut spec = spec;
        spec["nodeName"] = NODE.into();
        if spec.get("terminationGracePeriodSeconds").is_none() {
            spec["terminationGracePeriodSeconds"] = 2.into();
        }
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if container.get("image").is_none() {
                    container["image"] = "host".into();
                }
            }
        }
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
        self.api().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
    }

    /// Waits until the Pod fits.
    pub async fn until(&self, name: &str, fits: impl Fn(&Pod) -> bool + Send + Sync) -> Pod {
        let fits = |pod: Option<&Pod>| pod.is_some_and(&fits);
        let waiting = await_condition(self.api::<Pod>(), name, fits);
        if let Ok(found) = tokio::time::timeout(std::time::Duration::from_mins(1), waiting).await {
            return found.unwrap().unwrap();
        }
        let now = self.api::<Pod>().get(name).await;
        panic!("gave up waiting: {}", serde_json::to_string_pretty(&now.unwrap().status).unwrap())
    }

    pub async fn over(&self, name: &str) -> Pod {
        self.until(name, |pod| matches!(phase(pod), "Succeeded" | "Failed")).await
    }

    pub async fn logs(&self, name: &str, container: &str) -> String {
        let parameters = LogParams { container: Some(container.into()), ..LogParams::default() };
        self.api::<Pod>().logs(name, &parameters).await.unwrap()
    }

    /// Waits until a container has said something.
    pub async fn said(&self, name: &str, words: &str) {
        let saying = async {
            while !self.logs(name, "main").await.contains(words) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let patience = std::time::Duration::from_mins(1);
        assert!(tokio::time::timeout(patience, saying).await.is_ok(), "{name} never said {words}");
    }

    /// Deletes and waits until it is gone.
    pub async fn delete(&self, name: &str) {
        let uid = self.api::<Pod>().get(name).await.unwrap().uid().unwrap();
        self.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
        let gone = await_condition(self.api::<Pod>(), name, kube::runtime::conditions::is_deleted(&uid));
        tokio::time::timeout(std::time::Duration::from_mins(1), gone).await.unwrap().unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever a failed test left: shims end when they are killed, and their Pods with them.
        for entry in std::fs::read_dir(self.data.path().join("pods")).into_iter().flatten().flatten() {
            crate::support::kill_shim(&entry.path());
        }
        crate::support::kill_shim(&self.data.path().join("network"));
    }
}

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("")
}

pub fn container_state(pod: &Pod, index: usize) -> Value {
    serde_json::to_value(&pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[index]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_to_completion() {
    let world = World::new().await;
    world
        .create(
            "hello",
            json!({
                "restartPolicy": "Never",
                "initContainers": [
                    { "name": "first", "command": ["sh", "-c", "echo from init > /shared/note; echo first done"],
                      "volumeMounts": [{ "name": "shared", "mountPath": "/shared" }] },
                ],
                "containers": [
                    { "name": "main", "command": ["sh", "-c", "cat /work/space/note; echo $GREETING; exit 3"],
                      "env": [{ "name": "WHO", "value": "world" }, { "name": "GREETING", "value": "hello $(WHO)" }],
                      "volumeMounts": [{ "name": "shared", "mountPath": "/work/space" }] },
                ],
                "volumes": [{ "name": "shared", "emptyDir": {} }],
            }),
        )
        .await;
    let pod = world.over("hello").await;
    assert_eq!(phase(&pod), "Failed");
    let state = container_state(&pod, 0);
    assert_eq!(state["state"]["terminated"]["exitCode"], 3, "{state}");
    assert_eq!(state["state"]["terminated"]["reason"], "Error");
    assert_eq!(world.logs("hello", "main").await, "from init\nhello world\n");
    assert_eq!(world.logs("hello", "first").await, "first done\n");
    world.delete("hello").await;
    let left = std::fs::read_dir(world.data.path().join("pods")).unwrap().count();
    assert!(left <= 1, "directories of deleted Pods stay: {left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_maps_and_secrets_are_files_and_variables_and_follow_changes() {
    let world = World::new().await;
    let config: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": "settings" }, "data": { "color": "red" } })).unwrap();
    world.api().create(&PostParams::default(), &config).await.unwrap();
    let secret: Secret =
        serde_json::from_value(json!({ "metadata": { "name": "keys" }, "stringData": { "token": "s3cret" } })).unwrap();
    world.api().create(&PostParams::default(), &secret).await.unwrap();
    world
        .create(
            "reader",
            json!({
                "restartPolicy": "Never",
                "containers": [{
                    "name": "main",
                    "command": ["sh", "-c", "echo $COLOR $TOKEN; cat /keys/deep/t; echo; until [ $(cat /settings/color) = blue ]; do sleep 0.05; done; echo changed"],
                    "env": [{ "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "keys", "key": "token" } } }],
                    "envFrom": [{ "configMapRef": { "name": "settings" }, "prefix": "" }],
                    "volumeMounts": [
                        { "name": "settings", "mountPath": "/settings" },
                        { "name": "keys", "mountPath": "/keys", "readOnly": true },
                    ],
                }],
                "volumes": [
                    { "name": "settings", "configMap": { "name": "settings" } },
                    { "name": "keys", "secret": { "secretName": "keys", "items": [{ "key": "token", "path": "deep/t", "mode": 0o400 }] } },
                ],
            }),
        )
        .await;
    world.until("reader", |pod| phase(pod) == "Running").await;
    let change = json!({ "data": { "color": "blue" } });
    let api = world.api::<ConfigMap>();
    api.patch("settings", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    let pod = world.over("reader").await;
    let log = world.logs("reader", "main").await;
    assert_eq!(phase(&pod), "Succeeded", "{log}");
    assert!(log.contains("s3cret\n") && log.ends_with("changed\n"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_and_the_pod_goes_on_when_it_comes() {
    let world = World::new().await;
    world
        .create(
            "waiting",
            json!({ "restartPolicy": "Never", "containers": [{
                "name": "main", "command": ["sh", "-c", "echo $A"],
                "env": [{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "late", "key": "a" } } }],
            }] }),
        )
        .await;
    world
        .create("foreign", json!({ "containers": [{ "name": "main", "image": "busybox:1", "command": ["true"] }] }))
        .await;
    let reason = |pod: &Pod| container_state(pod, 0)["state"]["waiting"]["reason"].as_str().map(str::to_owned);
    let has_status = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.container_statuses.is_some());
    let pod = world
        .until("waiting", |pod| has_status(pod) && reason(pod).as_deref() == Some("CreateContainerConfigError"))
        .await;
    assert_eq!(container_state(&pod, 0)["state"]["waiting"]["message"], "configmap \"late\" not found");
    let pod = world.until("foreign", |pod| has_status(pod) && reason(pod).as_deref() == Some("ErrImagePull")).await;
    let words = container_state(&pod, 0)["state"]["waiting"]["message"].to_string();
    assert!(words.contains("orrery image import"), "{words}");
    let config: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": "late" }, "data": { "a": "arrived" } })).unwrap();
    world.api().create(&PostParams::default(), &config).await.unwrap();
    assert_eq!(phase(&world.over("waiting").await), "Succeeded");
    assert_eq!(world.logs("waiting", "main").await, "arrived\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_gives_grace_and_then_none() {
    let world = World::new().await;
    for (name, script) in [
        ("polite", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"),
        ("stubborn", "trap '' TERM; echo up; while :; do sleep 0.05; done"),
    ] {
        world
            .create(
                name,
                json!({ "terminationGracePeriodSeconds": 1, "containers": [{ "name": "main", "command": ["sh", "-c", script] }] }),
            )
            .await;
    }
    for name in ["polite", "stubborn"] {
        world.until(name, |pod| phase(pod) == "Running").await;
        world.said(name, "up").await;
        world.delete(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_node_finds_its_pods_again() {
    let mut world = World::new().await;
    let script = "echo up; until [ -e /signal/go ]; do sleep 0.05; done; exit 5";
    world
        .create(
            "survivor",
            json!({
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "command": ["sh", "-c", script],
                                 "volumeMounts": [{ "name": "signal", "mountPath": "/signal" }] }],
                "volumes": [{ "name": "signal", "emptyDir": {} }],
            }),
        )
        .await;
    let pod = world.until("survivor", |pod| phase(pod) == "Running").await;
    world.stop().await;
    let volume = world.data.path().join("pods").join(pod.uid().unwrap()).join("volumes/signal");
    std::fs::write(volume.join("go"), "").unwrap();
    world.start().await;
    let pod = world.over("survivor").await;
    assert_eq!(container_state(&pod, 0)["state"]["terminated"]["exitCode"], 5);
    assert_eq!(container_state(&pod, 0)["restartCount"], 0);
    assert_eq!(world.logs("survivor", "main").await, "up\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_takes_its_pod_along_and_never_means_a_second_run() {
    let world = World::new().await;
    let container = json!([{ "name": "main", "command": ["sh", "-c", "echo up; sleep 1000"] }]);
    let once = world.create("once", json!({ "restartPolicy": "Never", "containers": container })).await;
    let always = world.create("always", json!({ "containers": container })).await;
    for pod in [&once, &always] {
        world.until(&pod.name_any(), |pod| phase(pod) == "Running").await;
        world.said(&pod.name_any(), "up").await;
        crate::support::kill_shim(&world.data.path().join("pods").join(pod.uid().unwrap()));
    }
    let pod = world.over("once").await;
    assert_eq!(phase(&pod), "Failed");
    assert_eq!(container_state(&pod, 0)["state"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(world.logs("once", "main").await, "up\n");
    let again =
        world.until("always", |pod| container_state(pod, 0)["restartCount"] == 1 && phase(pod) == "Running").await;
    assert!(container_state(&again, 0)["state"]["running"].is_object());
    world.delete("always").await;
}
