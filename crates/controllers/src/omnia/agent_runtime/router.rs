//! The router's objects.

use std::collections::BTreeMap;

use api::kubeopencode::Scheduling;
use api::omnia::names;
use api::omnia::routing::{ROUTING_KEY, Routing};
use engine::Decision;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Service};
use kube::ResourceExt;
use serde_json::json;

use super::environment::FACADE_HEALTH_PORT;
use super::objects::{PROGRAM, Side, probe, scraped, service_for_router};
use super::observe::Observed;
use crate::omnia::owner::{labels, owned};
use crate::pod::{self, Recipe, Replacing, config_map_volume, listens, read_only, variable};

/// What its objects and Pods are labelled with.
pub(super) const COMPONENT: &str = "router";
/// Where a container finds what the router is told.
pub(super) const DIRECTORY: &str = "/etc/omnia/router";
/// Two would learn of a change one after the other, and a session that meets both in turn would go back and forth. One that
/// dies is started again, and chooses as before.
const REPLICAS: i32 = 1;
/// How long a router that is to end may finish what it has under way, in seconds.
const GRACE: i64 = 60;

/// States the router, and the Services by which it reaches the two sides.
pub(super) fn apply(observed: &Observed, image: &str, routing: &Routing, decision: &mut Decision) {
    let name = observed.runtime.name_any();
    tell(observed, routing, decision);
    decision.apply(&service_for_router(observed, names::stable_service(&name), Side::Stable));
    decision.apply(&service_for_router(observed, names::canary(&name), Side::Canary));
    decision.apply(&deployment(observed, image));
}

/// Everybody goes to the first Deployment.
pub(super) fn idle(observed: &Observed, cluster_domain: &str) -> Routing {
    let runtime = &*observed.runtime;
    let (name, namespace) = (runtime.name_any(), runtime.namespace().unwrap_or_default());
    let port = runtime.spec.facade.port;
    let place = |service: String| format!("{service}.{namespace}.svc.{cluster_domain}:{port}");
    Routing {
        stable: place(names::stable_service(&name)),
        canary: place(names::canary(&name)),
        weight: 0,
        salt: String::new(),
        window: String::new(),
        session_header: String::new(),
        session_cookie: String::new(),
        retiring: false,
    }
}

/// Tells the router what to do, if that is what it was told when this was decided: of two that decide, one is late.
pub(super) fn tell(observed: &Observed, routing: &Routing, decision: &mut Decision) {
    let wanted = config_map(observed, routing);
    match &observed.canary.routing {
        Some(present) if told(present).as_ref() == Some(routing) => {}
        Some(present) => {
            decision.patch(&**present, json!({ "data": wanted.data }));
        }
        None => {
            decision.create(&wanted);
        }
    }
}

/// What the router is told, as an object.
fn config_map(observed: &Observed, routing: &Routing) -> ConfigMap {
    let name = observed.runtime.name_any();
    let text = serde_json::to_string(routing).expect("the routing is plain data");
    ConfigMap {
        metadata: owned(&*observed.runtime, names::router(&name), labels(COMPONENT, &name)),
        data: Some(BTreeMap::from([(ROUTING_KEY.to_owned(), text)])),
        ..ConfigMap::default()
    }
}

/// What the router was told.
pub(super) fn told(map: &ConfigMap) -> Option<Routing> {
    serde_json::from_str(map.data.as_ref()?.get(ROUTING_KEY)?).ok()
}

/// Whether a Service leads to the router.
pub(super) fn leads_to_router(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.and_then(|selector| selector.get(names::COMPONENT_LABEL)).is_some_and(|component| component == COMPONENT)
}

/// Whether the router answers.
pub(super) fn is_ready(observed: &Observed) -> bool {
    let status = observed.canary.router.as_ref().and_then(|router| router.status.as_ref());
    status.and_then(|status| status.ready_replicas).unwrap_or(0) >= REPLICAS
}

/// The router. Nothing in it changes with the share, so that it is never replaced for that.
fn deployment(observed: &Observed, image: &str) -> Deployment {
    let runtime = &*observed.runtime;
    let name = runtime.name_any();
    let labels = labels(COMPONENT, &name);
    let settings = runtime.spec.runtime.clone().unwrap_or_default();
    let port = runtime.spec.facade.port;
    let container = Container {
        env: Some(vec![
            variable("OMNIA_ROUTER_PORT", port.to_string()),
            variable("OMNIA_HEALTH_PORT", FACADE_HEALTH_PORT.to_string()),
            variable("OMNIA_ROUTING_PATH", format!("{DIRECTORY}/{ROUTING_KEY}")),
        ]),
        // The same name as the facade's, so that the Service needs no other port.
        ports: Some(vec![listens("facade", port), listens("router-health", FACADE_HEALTH_PORT)]),
        readiness_probe: Some(probe("/readyz", FACADE_HEALTH_PORT, 0, 2)),
        liveness_probe: Some(probe("/healthz", FACADE_HEALTH_PORT, 15, 20)),
        volume_mounts: Some(vec![read_only("routing", DIRECTORY)]),
        ..pod::container(COMPONENT, image, vec![PROGRAM.into(), "omnia-router".into()])
    };
    let recipe = Recipe {
        labels: labels.clone(),
        annotations: scraped(),
        containers: vec![container],
        volumes: vec![config_map_volume("routing", &names::router(&name), None, None, false)],
        scheduling: Scheduling {
            node_selector: settings.node_selector,
            tolerations: settings.tolerations,
            ..Scheduling::default()
        },
        grace: Some(GRACE),
        ..Recipe::default()
    };
    let own = owned(runtime, names::router(&name), labels.clone());
    recipe.deployment(own, labels, REPLICAS, Replacing::Recreating)
}
