//! The slices a Service should have. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::{MANAGED_BY, MANAGER, SERVICE_NAME};
use crate::claim::controller_reference;
use crate::{naming, pods};

/// As many as kube-controller-manager puts into a slice.
const PER_SLICE: usize = 100;

/// One slice for each address family and each set of port numbers that a name resolves to, cut into pieces.
pub fn slices(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSlice> {
    families(service).iter().flat_map(|family| family_slices(service, pods, family)).collect()
}

fn families(service: &Service) -> Vec<String> {
    let listed = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    if listed.is_empty() { vec!["IPv4".to_owned()] } else { listed }
}

fn family_slices(service: &Service, pods: &[Arc<Pod>], family: &str) -> Vec<EndpointSlice> {
    let mut groups: BTreeMap<String, (Vec<EndpointPort>, Vec<Endpoint>)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pods::is_finished(pod)) {
        let Some(address) = address(pod, family) else { continue };
        let ports = ports(service, pod);
        let group = serde_json::to_string(&ports).unwrap_or_default();
        let (_, endpoints) = groups.entry(group).or_insert_with(|| (ports, Vec::new()));
        endpoints.push(endpoint(service, pod, address));
    }
    if groups.is_empty() {
        // An empty slice tells "nobody" from "not known yet".
        groups.insert(String::new(), (Vec::new(), Vec::new()));
    }
    let mut slices = Vec::new();
    for (group, (ports, mut endpoints)) in groups {
        endpoints.sort_by(|one, other| one.addresses.cmp(&other.addresses));
        let pieces: Vec<&[Endpoint]> =
            if endpoints.is_empty() { vec![&[]] } else { endpoints.chunks(PER_SLICE).collect() };
        for (number, piece) in pieces.iter().enumerate() {
            // Without endpoints the name must not depend on ports, or the first Pod would make a second slice.
            let first = if slices.is_empty() { "" } else { group.as_str() };
            slices.push(slice(service, family, first, number, &ports, piece));
        }
    }
    slices
}

fn slice(
    service: &Service,
    family: &str,
    group: &str,
    number: usize,
    ports: &[EndpointPort],
    endpoints: &[Endpoint],
) -> EndpointSlice {
    let uid = service.uid().unwrap_or_default();
    let suffix = naming::letters(naming::hash(&[&uid, family, group, &number.to_string()]), 5);
    let mut labels = service.labels().clone();
    labels.insert(SERVICE_NAME.to_owned(), service.name_any());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert("service.kubernetes.io/headless".to_owned(), String::new());
    }
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(naming::with_suffix(&service.name_any(), &suffix)),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(service)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: endpoints.to_vec(),
        ports: Some(ports.to_vec()).filter(|ports| !ports.is_empty()),
    }
}

fn address(pod: &Pod, family: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let listed = status.pod_ips.iter().flatten().map(|address| address.ip.clone());
    let fits = |text: &String| match text.parse::<IpAddr>() {
        Ok(address) => address.is_ipv4() == (family == "IPv4"),
        Err(_) => false,
    };
    listed.chain(status.pod_ip.clone()).find(fits)
}

fn endpoint(service: &Service, pod: &Pod, address: String) -> Endpoint {
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let spec = service.spec.as_ref();
    let always = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let serving = pods::is_ready(pod);
    let pod_spec = pod.spec.as_ref();
    let subdomain = pod_spec.and_then(|spec| spec.subdomain.clone());
    let hostname = pod_spec.and_then(|spec| spec.hostname.clone()).filter(|_| subdomain == service.metadata.name);
    Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(always || (serving && !terminating)),
            serving: Some(always || serving),
            terminating: Some(terminating),
        }),
        hostname,
        node_name: pod_spec.and_then(|spec| spec.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.namespace(),
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

/// The Service's ports as numbers of this Pod; a name the Pod does not know is left out.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let resolved = ports.iter().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(number(port, pod)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    resolved.collect()
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match port.target_port.as_ref() {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
            let declared =
                spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            declared
                .filter(|declared| declared.protocol.as_deref().unwrap_or("TCP") == protocol)
                .find(|declared| declared.name.as_deref() == Some(name))
                .map(|declared| declared.container_port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(spec: &Value) -> Service {
        let metadata = json!({"name": "web", "namespace": "n", "uid": "s", "labels": {"team": "a"}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Service")
    }

    fn pod(name: &str, address: &str, port: u16, ready: bool) -> Arc<Pod> {
        let status = if ready { "True" } else { "False" };
        let value = json!({
            "metadata": {"name": name, "namespace": "n", "uid": name},
            "spec": {"nodeName": "here", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": status}]},
        });
        Arc::new(serde_json::from_value(value).expect("a Pod"))
    }

    #[test]
    fn ready_and_unready_pods_are_listed_with_their_numbers() {
        let service = service(&json!({"ports": [{"name": "web", "port": 80, "targetPort": "http"}]}));
        let slices = slices(&service, &[pod("b", "10.0.0.2", 8080, false), pod("a", "10.0.0.1", 8080, true)]);
        assert_eq!(slices.len(), 1);
        let addresses: Vec<(&str, Option<bool>)> = slices[0]
            .endpoints
            .iter()
            .map(|endpoint| {
                (endpoint.addresses[0].as_str(), endpoint.conditions.as_ref().and_then(|conditions| conditions.ready))
            })
            .collect();
        assert_eq!(addresses, [("10.0.0.1", Some(true)), ("10.0.0.2", Some(false))]);
        let port = &slices[0].ports.as_ref().expect("ports")[0];
        assert_eq!((port.name.as_deref(), port.port, port.protocol.as_deref()), (Some("web"), Some(8080), Some("TCP")));
        assert_eq!(slices[0].labels()["team"], "a");
    }

    #[test]
    fn different_numbers_for_one_name_make_different_slices() {
        let service = service(&json!({"ports": [{"port": 80, "targetPort": "http"}]}));
        let slices = slices(&service, &[pod("a", "10.0.0.1", 8080, true), pod("b", "10.0.0.2", 9090, true)]);
        let ports: Vec<_> = slices.iter().map(|slice| slice.ports.as_ref().expect("ports")[0].port).collect();
        assert_eq!(ports, [Some(8080), Some(9090)]);
        assert_ne!(slices[0].metadata.name, slices[1].metadata.name);
    }

    #[test]
    fn nobody_is_an_empty_slice_and_the_first_pod_fills_it() {
        let service = service(&json!({"ports": [{"port": 80}]}));
        let empty = slices(&service, &[]);
        assert_eq!((empty.len(), empty[0].endpoints.len()), (1, 0));
        let filled = slices(&service, &[pod("a", "10.0.0.1", 8080, true)]);
        assert_eq!(empty[0].metadata.name, filled[0].metadata.name);
    }

    #[test]
    fn many_pods_are_cut_into_pieces() {
        let pods: Vec<_> = (0..150).map(|n| pod(&format!("p{n}"), &format!("10.0.1.{n}"), 1, true)).collect();
        let slices = slices(&service(&json!({"ports": [{"port": 80}]})), &pods);
        assert_eq!(slices.iter().map(|slice| slice.endpoints.len()).collect::<Vec<_>>(), [100, 50]);
    }
}
