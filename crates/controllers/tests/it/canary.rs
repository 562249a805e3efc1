//! A stand-in for the routers of canaries, and what must hold of canaries after every step.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::omnia::names::{self, COMPONENT_LABEL, CONTENT_ANNOTATION, HASH_ANNOTATION};
use api::omnia::routing::{ROUTING_KEY, Report, Routing, Tally};
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use orrery_controllers::ask::{Ask, Server};
use serde_json::{Value, json};
use testkit::Reader;

use crate::world::World;

/// They act on what they were told, and measure in every step what the `ConfigMap` `traffic` says.
#[derive(Clone)]
pub struct Routers(pub Client);

impl std::fmt::Debug for Routers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Routers")
    }
}

impl Ask for Routers {
    fn get<'a>(&'a self, server: &'a Server, path: &'a str) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            let maps: Api<ConfigMap> = Api::namespaced(self.0.clone(), &server.namespace);
            let told = maps.get_opt(server.pod.strip_suffix("-0")?).await.ok()?.filter(|_| path == "/report")?;
            let traffic = maps.get_opt("traffic").await.ok()?.and_then(|map| map.data).unwrap_or_default();
            let tally =
                |side: &str| traffic.get(side).map_or_else(Tally::default, |text| serde_json::from_str(text).unwrap());
            let report = Report { routing: routing(&told)?, stable: tally("stable"), canary: tally("canary") };
            Some(json!(report))
        })
    }
}

fn routing(map: &ConfigMap) -> Option<Routing> {
    serde_json::from_str(map.data.as_ref()?.get(ROUTING_KEY)?).ok()
}

fn component(labels: &BTreeMap<String, String>) -> &str {
    labels.get(COMPONENT_LABEL).map(String::as_str).unwrap_or_default()
}

pub fn is_router(pod: &Pod) -> bool {
    component(pod.labels()) == "router"
}

impl World {
    /// Router Pods come and go with their Deployments.
    pub async fn routers(&self) -> bool {
        let api = self.api::<Pod>();
        let deployments = self.objects::<Deployment>("apps/deployments");
        let pods: Vec<Arc<Pod>> = self.pods().into_iter().filter(|pod| is_router(pod)).collect();
        let mut changed = false;
        for deployment in deployments.iter().filter(|deployment| component(deployment.labels()) == "router") {
            let name = format!("{}-0", deployment.name_any());
            if pods.iter().any(|pod| pod.name_any() == name) {
                continue;
            }
            let spec = json!({ "containers": [{ "name": "router", "image": "forever" }] });
            let pod = json!({ "metadata": { "name": name, "labels": deployment.labels() }, "spec": spec });
            api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
            let patch = Patch::Merge(json!({ "status": { "phase": "Running" } }));
            api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
            changed = true;
        }
        for pod in &pods {
            if !deployments.iter().any(|deployment| format!("{}-0", deployment.name_any()) == pod.name_any()) {
                let _ = api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
                changed = true;
            }
        }
        changed
    }
}

/// What each agent's sessions were promised.
#[derive(Default)]
pub struct Memory {
    promised: BTreeMap<String, Promise>,
}

#[derive(Clone, PartialEq)]
struct Promise {
    weight: i32,
    canary: Option<String>,
    stable: Option<String>,
}

impl Memory {
    /// While sessions are at the new version it is there, the router leads to it, and neither side plays something else.
    pub fn broken(&mut self, reader: &Reader) -> Option<String> {
        let maps: Vec<Arc<ConfigMap>> = reader.objects("/configmaps");
        let routed = maps.iter().filter(|map| map.labels().get(COMPONENT_LABEL).is_some_and(|label| label == "router"));
        let told: BTreeMap<String, Routing> = routed
            .filter_map(|map| Some((map.name_any().strip_suffix("-router")?.to_owned(), routing(map)?)))
            .collect();
        if told.is_empty() {
            self.promised.clear();
            return None;
        }
        let deployments: Vec<Arc<Deployment>> = reader.objects("apps/deployments");
        let services: Vec<Arc<Service>> = reader.objects("/services");
        let promises = told.into_iter().map(|(agent, routing)| {
            let find = |name: &str| deployments.iter().find(|deployment| deployment.name_any() == name);
            let hash = |deployment: &Deployment| {
                let template = deployment.spec.as_ref()?.template.metadata.as_ref()?;
                template.annotations.as_ref()?.get(HASH_ANNOTATION).cloned()
            };
            let canary =
                find(&names::canary(&agent)).and_then(|made| made.annotations().get(CONTENT_ANNOTATION).cloned());
            let promise = Promise { weight: routing.weight, canary, stable: find(&agent).and_then(|made| hash(made)) };
            let selects = |service: &Service| service.spec.as_ref().unwrap().selector.clone().unwrap_or_default();
            let service = services
                .iter()
                .find(|service| service.name_any() == agent)
                .map(|service| selects(service))
                .unwrap_or_default();
            let broken = match self.promised.get(&agent) {
                _ if promise.weight > 0 && promise.canary.is_none() => {
                    Some("sessions go to a Deployment that is not there")
                }
                _ if promise.weight > 0 && component(&service) != "router" => {
                    Some("sessions at two sides, and no router")
                }
                Some(before) if before.weight > 0 && promise.weight > 0 && before.canary != promise.canary => {
                    Some("the new version became another under its sessions")
                }
                Some(before)
                    if (1..100).contains(&before.weight)
                        && (1..100).contains(&promise.weight)
                        && before.stable != promise.stable =>
                {
                    Some("the active version became another under its sessions")
                }
                _ => None,
            };
            (agent, promise, broken)
        });
        let promises: Vec<_> = promises.collect();
        let broken = promises.iter().find_map(|(agent, _, broken)| broken.map(|broken| format!("{agent}: {broken}")));
        self.promised = promises.into_iter().map(|(agent, promise, _)| (agent, promise)).collect();
        broken
    }
}
