//! The two sides.

use std::any::Any;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testkit::Plane;
use testkit::controller_manager::{ControllerManager, kubeconfig_of};
use testkit::kubernetes::Kubernetes;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::scenarios::{Scenario, Stage};

const CONTROLLERS: &[&str] = &[
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "endpointslice-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
];

pub struct Side {
    client: Client,
    _tasks: JoinSet<()>,
    /// Whatever must live as long as the side.
    _kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl Side {
    pub async fn kubernetes() -> Self {
        // A process has one provider; another test may have chosen the same already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").expect("run this with `make test-kubernetes`");
        let assets = PathBuf::from(assets);
        let directory = tempfile::tempdir().unwrap();
        let kubernetes = Kubernetes::start(&assets, directory.path()).unwrap();
        let config = Kubeconfig::from_yaml(&kubeconfig_of(&kubernetes)).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let namespaces = Api::<Namespace>::all(client.clone());
        let ready = async {
            while namespaces.get_opt("default").await.ok().flatten().is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(90), ready).await.is_err() {
            let log = std::fs::read_to_string(directory.path().join("kube-apiserver.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(20).collect();
            panic!("kube-apiserver does not start: {:?}\n{}", namespaces.get_opt("default").await, lines.join("\n"));
        }
        add_node(&client).await;
        let manager = ControllerManager::start(&assets, directory.path(), &kubernetes, CONTROLLERS).unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(crate::pods::run(client.clone()));
        Self { client, _tasks: tasks, _kept: vec![Box::new(manager), Box::new(kubernetes), Box::new(directory)] }
    }

    pub async fn embedded() -> Self {
        let plane = Plane::start().await;
        let client = plane.client();
        let mut tasks = JoinSet::new();
        let options = orrery_workloads::Options::default();
        let clock = engine::RealClock::shared();
        let stop = CancellationToken::new();
        add_node(&client).await;
        tasks.spawn(orrery_workloads::start(client.clone(), clock, options, stop));
        tasks.spawn(crate::pods::run(client.clone()));
        Self { client, _tasks: tasks, _kept: vec![Box::new(plane)] }
    }

    /// Plays a scenario in a namespace of its own; answers what was seen.
    pub async fn play(&self, name: &str, scenario: Scenario) -> Vec<Value> {
        let namespace = json!({"metadata": {"name": name}});
        let namespaces = Api::<Namespace>::all(self.client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
        let stage = Stage::new(self.client.clone(), name);
        let playing: Pin<Box<dyn Future<Output = Vec<Value>> + Send>> = scenario(stage);
        playing.await
    }
}

/// Endpoints of Pods on a node that does not exist are left out, and our scheduler needs one.
async fn add_node(client: &Client) {
    let room = json!({"cpu": "64", "memory": "64Gi", "pods": "1000"});
    let node = json!({"metadata": {"name": "here"}, "status": {"capacity": room, "allocatable": room}});
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
}
