//! What a decision about a `ToolRegistry` depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::omnia::{Handler, ToolRegistry, names};
use engine::{Controller, Decision, Error, Failure, Key, View, Watches};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::core::{Expression, Selector};
use tools::{Credentials, Problem};

use super::discover::Answer;
use super::locate::{Place, SERVICE_NAME_LABEL, ServiceName, named_place, selects};
use super::probe;
use super::question::{Asked, questions};
use super::schemas::COMPONENT;
use crate::omnia::Settings;
use crate::omnia::contents::SecretName;

/// Places that are asked at the same time.
const AT_ONCE: usize = 16;

/// Keeps the lists of tools true.
pub struct RegistryController {
    /// What the operator decided.
    pub settings: Settings,
}

/// What a decision about a `ToolRegistry` depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The registry.
    pub registry: Arc<ToolRegistry>,
    /// The Services that its handlers mean.
    pub services: Vec<Arc<Service>>,
    /// Where those can be reached.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Places outside of the cluster, and whether they answered.
    pub places: BTreeMap<Place, Result<(), String>>,
    /// Handlers whose credentials cannot be had, and why.
    pub locked: BTreeMap<String, Problem>,
    /// What servers said about their tools.
    pub answers: BTreeMap<Asked, Answer>,
    /// The Pods that ask programs.
    pub pods: Vec<Arc<Pod>>,
    /// The `ConfigMaps` that hold what did not fit into the status.
    pub maps: Vec<Arc<ConfigMap>>,
}

impl Controller for RegistryController {
    const NAME: &'static str = "omnia-toolregistry";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        let (domain, again) = (self.settings.cluster_domain.clone(), self.settings.cluster_domain.clone());
        let schemas: Selector = Expression::Equal(names::COMPONENT_LABEL.into(), COMPONENT.into()).into();
        let probes: Selector = Expression::Equal(names::COMPONENT_LABEL.into(), probe::COMPONENT.into()).into();
        Watches::of::<ToolRegistry>()
            .owned_selected::<ConfigMap>("ToolRegistry", schemas)
            .owned_selected::<Pod>("ToolRegistry", probes)
            .mapped::<SecretName>(|secret, view| {
                let names = |registry: &&Arc<ToolRegistry>| {
                    let mut named = registry.spec.handlers.iter().filter_map(Handler::auth_secret_ref);
                    named.any(|named| named.name == secret.name_any())
                };
                let registries = view.list::<ToolRegistry>(&secret.namespace().unwrap_or_default());
                registries.iter().filter(names).map(|registry| Key::of(&**registry)).collect()
            })
            .mapped::<Service>(move |service, view| registries_of(service, view, &domain))
            .mapped::<EndpointSlice>(move |slice, view| {
                let service = slice.labels().get(SERVICE_NAME_LABEL).cloned().unwrap_or_default();
                let key = Key::new(slice.namespace().unwrap_or_default(), service);
                view.cached::<Service>(&key).map(|service| registries_of(&service, view, &again)).unwrap_or_default()
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(registry) = view.cached::<ToolRegistry>(key) else { return Ok(None) };
        let mut services = Vec::new();
        let mut outside = BTreeSet::new();
        for handler in &registry.spec.handlers {
            if let Some(selector) = &handler.selector {
                let namespace = selector.namespace.as_deref().unwrap_or(&key.namespace);
                let all = view.list::<Service>(namespace);
                services.extend(all.into_iter().filter(|service| selects(selector, &key.namespace, service)));
                continue;
            }
            let Some(place) = named_place(handler) else { continue };
            match place.service(&key.namespace, &self.settings.cluster_domain) {
                Some(name) => match view.cached::<Service>(&Key::new(&name.namespace, &name.name)) {
                    Some(service) => services.push(service),
                    None if name.certain || handler.asks(handler.type_) => {}
                    None => drop(outside.insert(place)),
                },
                None if handler.asks(handler.type_) => {}
                None => drop(outside.insert(place)),
            }
        }
        services.sort_by_key(|service| Key::of(&**service));
        services.dedup_by_key(|service| Key::of(&**service));
        let namespaces: BTreeSet<String> = services.iter().filter_map(|service| service.namespace()).collect();
        let slices: Vec<_> = namespaces.iter().flat_map(|namespace| view.list::<EndpointSlice>(namespace)).collect();
        let places = futures::stream::iter(outside)
            .map(|place| async {
                let answer = self.settings.reach.connect(&place.host, place.port).await;
                (place, answer)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let (credentials, locked) = credentials(&registry, view).await?;
        let questions = questions(&registry, &services, &slices, &credentials, &self.settings);
        let mut answers: BTreeMap<Asked, Answer> = futures::stream::iter(questions)
            .map(|question| async move {
                let answer = self.settings.discover.ask(&question).await;
                (question.asked, answer)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let uid = registry.uid().unwrap_or_default();
        let (maps, pods) = (view.owned::<ConfigMap>(&uid), view.owned::<Pod>(&uid));
        answers.extend(self.programs(&registry, &pods, view).await);
        Ok(Some(Observed { registry, services, slices, places, locked, answers, pods, maps }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        super::decide(observed, &self.settings, now)
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        super::decide::refused(observed, failure, now)
    }
}

impl RegistryController {
    /// What the Pods that have ended found out about programs.
    async fn programs(&self, registry: &ToolRegistry, pods: &[Arc<Pod>], view: &View) -> Vec<(Asked, Answer)> {
        let mut answers = Vec::new();
        for handler in registry.spec.handlers.iter().filter(|handler| probe::is_program(handler)) {
            let Some(pod) = probe::current(pods, registry, handler, &self.settings) else { continue };
            let command = handler.mcp_config.as_ref().and_then(|config| config.command.clone()).unwrap_or_default();
            let answer = if probe::has_ended(pod) {
                self.settings.discover.read(view.client(), pod, &format!("stdio://{command}")).await
            } else if probe::is_late(pod, view.now()) {
                let message = format!("Pod {} has not found out what tools the program has", pod.name_any());
                Err(Problem { reason: "Timeout", message })
            } else {
                continue;
            };
            answers.push(((handler.name.clone(), None), answer));
        }
        answers
    }
}

/// The credentials with which the servers of handlers are asked, and why some cannot be had. They go nowhere else.
async fn credentials(
    registry: &ToolRegistry,
    view: &View,
) -> Result<(BTreeMap<String, Credentials>, BTreeMap<String, Problem>), Error> {
    let (mut known, mut locked) = (BTreeMap::new(), BTreeMap::new());
    // A Service that a selector finds may say itself that it can be asked.
    let asks = |handler: &&Handler| handler.selector.is_some() || handler.asks(handler.type_);
    for handler in registry.spec.handlers.iter().filter(asks) {
        let Some(named) = handler.auth_secret_ref() else { continue };
        let key = Key::new(registry.namespace().unwrap_or_default(), &named.name);
        let secret = view.live::<Secret>(&key).await?;
        let value = secret.as_ref().map(|secret| secret.data.as_ref().and_then(|data| data.get(&named.key)));
        let problem = |reason, message| Problem { reason, message };
        let found = match value {
            None => Err(problem("SecretNotFound", format!("there is no Secret {}", named.name))),
            Some(None) => Err(problem("SecretKeyNotFound", format!("Secret {} has no key {}", named.name, named.key))),
            Some(Some(value)) => {
                let text = std::str::from_utf8(&value.0).ok();
                let found = text.and_then(|text| Credentials::new(handler.auth_type(), text));
                let message = format!("key {} of Secret {} cannot be sent in a header", named.key, named.name);
                found.ok_or_else(|| problem("SecretInvalid", message))
            }
        };
        match found {
            Ok(credentials) => drop(known.insert(handler.name.clone(), credentials)),
            Err(problem) => drop(locked.insert(handler.name.clone(), problem)),
        }
    }
    Ok((known, locked))
}

/// The registries that a change of this Service concerns, and no other.
fn registries_of(service: &Service, view: &View, domain: &str) -> Vec<Key> {
    let concerns =
        |registry: &ToolRegistry| {
            let own = registry.namespace().unwrap_or_default();
            registry.spec.handlers.iter().any(|handler| match &handler.selector {
                Some(selector) => selects(selector, &own, service),
                None => named_place(handler).and_then(|place| place.service(&own, domain)).is_some_and(
                    |name: ServiceName| Some(name.namespace) == service.namespace() && name.name == service.name_any(),
                ),
            })
        };
    let registries = view.list::<ToolRegistry>("");
    registries.iter().filter(|registry| concerns(registry)).map(|registry| Key::of(&**registry)).collect()
}
