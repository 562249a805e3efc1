//! The Node object and its heartbeat.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node as Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::agent::Node;

const HEARTBEAT: Duration = Duration::from_secs(10);
const LEASES: &str = "kube-node-lease";
const MANAGER: &str = "orrery-node";

/// What this machine has.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Processors.
    pub cpus: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Pods at a time.
    pub pods: u32,
}

impl Capacity {
    /// Looks at this machine.
    pub fn of_this_machine(pods: u32) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kibibytes = info
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0);
        Self { cpus, memory: kibibytes * 1024, pods }
    }

    fn to_value(self) -> Value {
        json!({ "cpu": self.cpus.to_string(), "memory": format!("{}Ki", self.memory / 1024), "pods": self.pods.to_string() })
    }
}

/// Writes the Node object.
pub async fn register(node: &Node) -> Result<(), kube::Error> {
    let api: Api<Object> = Api::all(node.client.clone());
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let labels = json!({
        "kubernetes.io/arch": architecture,
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
    });
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node.name, "labels": labels },
    });
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(&node.name, &parameters, &Patch::Apply(object)).await?;
    write_status(node, architecture).await
}

async fn write_status(node: &Node, architecture: &str) -> Result<(), kube::Error> {
    let api: Api<Object> = Api::all(node.client.clone());
    let now = Timestamp::now();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": format!("{now:.0}"), "lastTransitionTime": format!("{now:.0}"),
        })
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let status = json!({
        "capacity": node.capacity.to_value(),
        "allocatable": node.capacity.to_value(),
        "addresses": [
            { "type": "InternalIP", "address": node.address.to_string() },
            { "type": "Hostname", "address": node.name },
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "there is enough memory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "there is enough disk"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "there are enough process ids"),
            condition("Ready", "True", "KubeletReady", &node.driver.isolation().summary),
        ],
        "nodeInfo": {
            "architecture": architecture,
            "bootID": boot.trim(),
            "containerRuntimeVersion": format!("orrery://{version}"),
            "kernelVersion": release,
            "kubeProxyVersion": "",
            "kubeletVersion": format!("v1.33.0-orrery.{version}"),
            "machineID": machine.trim(),
            "operatingSystem": "linux",
            "osImage": os_name(),
            "systemUUID": machine.trim(),
        },
    });
    let object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node.name }, "status": status });
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch_status(&node.name, &parameters, &Patch::Apply(object)).await.map(drop)
}

fn os_name() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Linux".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// Renews the node's Lease for ever.
pub async fn heartbeat(node: Arc<Node>) {
    let api: Api<Lease> = Api::namespaced(node.client.clone(), LEASES);
    loop {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(node.name.clone()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(node.name.clone()),
                lease_duration_seconds: Some(40),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        };
        let parameters = PatchParams::apply(MANAGER).force();
        if let Err(error) = api.patch(&node.name, &parameters, &Patch::Apply(&lease)).await {
            tracing::warn!(%error, "the node's Lease could not be renewed");
        }
        tokio::time::sleep(HEARTBEAT).await;
    }
}
