//! Service → EndpointSlices: where its Pods can be reached, and which of them are ready.

use std::sync::Arc;

use engine::{Controller, Decision, Error, Key, View, Watches, merge_difference};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde_json::{Value, json};

mod build;

/// The label that ties a slice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that says whose slice it is; others may write slices for the same Service.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The controller.
pub struct Endpoints;

/// A Service, the Pods it selects, and the slices there are.
pub struct Observed {
    service: Arc<Service>,
    pods: Vec<Arc<Pod>>,
    slices: Vec<Arc<EndpointSlice>>,
}

impl Controller for Endpoints {
    const NAME: &'static str = "endpointslice-controller";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        Watches::of::<Service>()
            .mapped::<Pod>(|pod, view| {
                let services = view.list::<Service>(&pod.namespace().unwrap_or_default());
                services.iter().filter(|service| selects(service, pod)).map(|service| Key::of(&**service)).collect()
            })
            .mapped::<EndpointSlice>(|slice, _| {
                let service = slice.labels().get(SERVICE_NAME);
                service.map(|name| Key::new(slice.namespace().unwrap_or_default(), name)).into_iter().collect()
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(service) = view.cached::<Service>(key) else { return Ok(None) };
        // Without a selector someone else says where it leads.
        if service.metadata.deletion_timestamp.is_some() || selector(&service).is_none() {
            return Ok(None);
        }
        let pods = view.list::<Pod>(&key.namespace).into_iter().filter(|pod| selects(&service, pod)).collect();
        let ours = |slice: &Arc<EndpointSlice>| {
            slice.labels().get(SERVICE_NAME) == Some(&key.name)
                && slice.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
        };
        let slices = view.list::<EndpointSlice>(&key.namespace).into_iter().filter(ours).collect();
        Ok(Some(Observed { service, pods, slices }))
    }

    fn decide(&self, observed: &Observed, _now: Timestamp) -> Decision {
        let mut decision = Decision::none();
        let wanted = build::slices(&observed.service, &observed.pods);
        for slice in &wanted {
            match observed.slices.iter().find(|present| present.metadata.name == slice.metadata.name) {
                None => {
                    decision.create(slice);
                }
                Some(present) => update(&mut decision, present, slice),
            }
        }
        let unwanted =
            |present: &&Arc<EndpointSlice>| !wanted.iter().any(|slice| slice.metadata.name == present.metadata.name);
        for slice in observed.slices.iter().filter(unwanted) {
            decision.delete(&**slice);
        }
        decision
    }
}

/// Writes what differs. Merging replaces whole lists, and slices hold nothing of others.
fn update(decision: &mut Decision, present: &EndpointSlice, wanted: &EndpointSlice) {
    let relevant = |slice: &EndpointSlice| -> Value {
        json!({ "metadata": { "labels": slice.metadata.labels }, "endpoints": slice.endpoints, "ports": slice.ports })
    };
    if let Some(difference) = merge_difference(&relevant(present), &relevant(wanted)) {
        decision.patch(present, difference);
    }
}

fn selector(service: &Service) -> Option<&std::collections::BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    let external = spec.type_.as_deref() == Some("ExternalName");
    spec.selector.as_ref().filter(|selector| !selector.is_empty() && !external)
}

fn selects(service: &Service, pod: &Pod) -> bool {
    selector(service).is_some_and(|selector| selector.iter().all(|(name, value)| pod.labels().get(name) == Some(value)))
}
