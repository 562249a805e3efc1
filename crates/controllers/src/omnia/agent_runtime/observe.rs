//! What a decision about an `AgentRuntime` depends on.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::omnia::routing::Report;
use api::omnia::{AgentPolicy, AgentRuntime, PromptPack, Provider, ProviderReference, ToolRegistry, names};
use engine::{Controller, Decision, Error, Failure, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::core::{Expression, Selector};

use super::environment::{FACADE_HEALTH_PORT, RUNTIME_HEALTH_PORT};
use super::objects::Side;
use super::router;
use super::uses::Uses;
use crate::ask::Server;
use crate::omnia::Settings;
use crate::omnia::agent_policy::is_for;
use crate::omnia::contents::{self, ConfigMapName, Contents, SecretName};
use crate::omnia::owner::MANAGED_BY;
use crate::omnia::tool_registry::schemas::COMPONENT as SCHEMAS;

/// Keeps agents as they are declared.
pub struct RuntimeController {
    /// What the operator decided.
    pub settings: Settings,
}

/// What a decision about an `AgentRuntime` depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The agent.
    pub runtime: Arc<AgentRuntime>,
    /// Its pack.
    pub pack: Option<Arc<PromptPack>>,
    /// Its tools.
    pub registry: Option<Arc<ToolRegistry>>,
    /// The policies that are for it.
    pub policies: Vec<Arc<AgentPolicy>>,
    /// Its provider: its own, or else its pack's.
    pub provider: Option<Arc<Provider>>,
    /// Secrets that reach its containers, as far as they exist.
    pub secrets: BTreeMap<String, Contents>,
    /// `ConfigMaps` that do, beside its pack and its tools.
    pub config_maps: BTreeMap<String, Contents>,
    /// Its Deployment.
    pub deployment: Option<Arc<Deployment>>,
    /// The file with its tools that is there now, in case it is no longer wanted.
    pub tools: Option<Arc<ConfigMap>>,
    /// What did not fit into its registry's status.
    pub schemas: Vec<Arc<ConfigMap>>,
    /// Its Pods, for what they say about themselves.
    pub pods: Vec<Arc<Pod>>,
    /// What there is of a canary.
    pub canary: Canary,
}

/// What there is of a canary.
#[derive(Clone, Debug, Default)]
pub struct Canary {
    /// The second Deployment.
    pub deployment: Option<Arc<Deployment>>,
    /// The router.
    pub router: Option<Arc<Deployment>>,
    /// What the router is told.
    pub routing: Option<Arc<ConfigMap>>,
    /// The Service that clients know.
    pub service: Option<Arc<Service>>,
    /// The Services by which the router reaches the two sides.
    pub services: Vec<Arc<Service>>,
    /// What each router answered.
    pub reports: Vec<Option<Report>>,
    /// Digests of the packs that the Pods of the first Deployment play, as far as they were asked and say so.
    pub playing: Vec<Option<String>>,
}

impl Canary {
    /// Whether nothing of one is there.
    pub(super) fn is_nothing(&self) -> bool {
        self.deployment.is_none() && self.router.is_none() && self.routing.is_none() && self.services.is_empty()
    }

    /// Takes everything away but what clients know.
    pub(super) fn delete(&self, decision: &mut Decision) {
        for deployment in self.router.iter().chain(&self.deployment) {
            decision.delete(&**deployment);
        }
        for service in &self.services {
            decision.delete(&**service);
        }
        if let Some(routing) = &self.routing {
            decision.delete(&**routing);
        }
    }
}

impl Controller for RuntimeController {
    const NAME: &'static str = "omnia-agentruntime";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        let ours: Selector = Expression::Equal(MANAGED_BY.0.into(), MANAGED_BY.1.into()).into();
        let files: Selector = component_in(["tools", SCHEMAS, router::COMPONENT]);
        let agents: Selector = component_in([Side::Stable.component(), router::COMPONENT]);
        Watches::of::<AgentRuntime>()
            .owned_selected::<Deployment>("AgentRuntime", ours.clone())
            .owned_selected::<Service>("AgentRuntime", ours)
            .mapped_selected::<ConfigMap>(files, |map, view| {
                let namespace = map.namespace().unwrap_or_default();
                let owners = map.owner_references().iter();
                owners
                    .flat_map(|owner| match owner.kind.as_str() {
                        "AgentRuntime" => vec![Key::new(&namespace, &owner.name)],
                        "ToolRegistry" => of_registry(view, &namespace, &owner.name),
                        _ => Vec::new(),
                    })
                    .collect()
            })
            .mapped_selected::<Pod>(agents, |pod, _| {
                let instance = pod.labels().get("app.kubernetes.io/instance").cloned().unwrap_or_default();
                vec![Key::new(pod.namespace().unwrap_or_default(), instance)]
            })
            .changes::<PromptPack>(|change, view| {
                let facts = |pack: &Arc<PromptPack>| {
                    let status = pack.status.clone().unwrap_or_default();
                    let canary = status.canary.map(|canary| (canary.config_map, canary.step));
                    let weight = status.canary_weight;
                    let spec = (pack.spec.provider_ref.clone(), pack.spec.rollout.clone());
                    (spec, status.phase, status.active_version, status.versions, canary, weight)
                };
                if change.before.as_ref().map(facts) == change.after.as_ref().map(facts) {
                    return Vec::new();
                }
                let Some(pack) = change.after.as_ref().or(change.before.as_ref()) else { return Vec::new() };
                of_pack(view, &pack.namespace().unwrap_or_default(), &pack.name_any())
            })
            .changes::<ToolRegistry>(|change, view| {
                let facts = |registry: &Arc<ToolRegistry>| {
                    let status = registry.status.clone().unwrap_or_default();
                    (registry.spec.clone(), status.phase, status.discovered_tools)
                };
                if change.before.as_ref().map(facts) == change.after.as_ref().map(facts) {
                    return Vec::new();
                }
                let Some(registry) = change.after.as_ref().or(change.before.as_ref()) else { return Vec::new() };
                of_registry(view, &registry.namespace().unwrap_or_default(), &registry.name_any())
            })
            .mapped::<AgentPolicy>(|policy, view| {
                runtimes(view, &policy.namespace().unwrap_or_default(), |runtime| is_for(policy, runtime))
            })
            .mapped::<Provider>(|provider, view| {
                of_provider(view, &provider.namespace().unwrap_or_default(), &provider.name_any())
            })
            .mapped::<SecretName>(|secret, view| {
                let namespace = secret.metadata.namespace.clone().unwrap_or_default();
                of_secret(view, &namespace, &secret.metadata.name.clone().unwrap_or_default())
            })
            .mapped::<ConfigMapName>(|map, view| {
                let namespace = map.metadata.namespace.clone().unwrap_or_default();
                let name = map.metadata.name.clone().unwrap_or_default();
                runtimes(view, &namespace, |runtime| Uses::of(runtime, None, None, false).config_maps.contains(&name))
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(runtime) = view.cached::<AgentRuntime>(key) else { return Ok(None) };
        let spec = &runtime.spec;
        let near = |name: &str| Key::new(&key.namespace, name);
        let pack = near(&spec.prompt_pack_ref.name);
        let routing = near(&names::router(&key.name));
        let (routing, pack) = if is_in_canary(&runtime, &pack, &routing, view) {
            // In this order: whoever told the router something newer than what the pack says here did so after the first of
            // the two was read, and the write that depends on it is refused.
            (view.live::<ConfigMap>(&routing).await?, view.live::<PromptPack>(&pack).await?)
        } else {
            (None, view.get::<PromptPack>(&pack).await?)
        };
        let registry = match &spec.tool_registry_ref {
            Some(reference) => view.get::<ToolRegistry>(&near(&reference.name)).await?,
            None => None,
        };
        let provider = match provider_of(&runtime, pack.as_deref()) {
            Some(reference) => view.get::<Provider>(&near(&reference.name)).await?,
            None => None,
        };
        let mut policies: Vec<Arc<AgentPolicy>> =
            view.list::<AgentPolicy>(&key.namespace).into_iter().filter(|policy| is_for(policy, &runtime)).collect();
        if let Some(reference) = &spec.agent_policy_ref
            && !policies.iter().any(|policy| policy.name_any() == reference.name)
        {
            // Its absence is acted upon, so it must be sure.
            policies.extend(view.get::<AgentPolicy>(&near(&reference.name)).await?);
        }
        let own = self.settings.runtime(spec).own;
        let uses = Uses::of(&runtime, provider.as_deref(), registry.as_deref(), own);
        let secrets = contents::secrets(&key.namespace, uses.secrets, view).await?;
        let config_maps = contents::config_maps(&key.namespace, uses.config_maps, view).await?;
        let deployment = view.cached::<Deployment>(key);
        let tools = view.cached::<ConfigMap>(&near(&names::tools_config_map(&key.name)));
        let of_registry = |map: &Arc<ConfigMap>| {
            let owners = map.owner_references();
            let name = registry.as_ref().map(|registry| registry.name_any());
            owners.iter().any(|owner| owner.kind == "ToolRegistry" && Some(&owner.name) == name.as_ref())
        };
        let schemas = view.list::<ConfigMap>(&key.namespace).into_iter().filter(of_registry).collect();
        let is_ours = |pod: &Arc<Pod>| pod.labels().get("app.kubernetes.io/instance") == Some(&key.name);
        let all = view.list::<Pod>(&key.namespace).into_iter().filter(is_ours);
        let (routers, pods): (Vec<_>, Vec<_>) = all.partition(|pod| is(pod, router::COMPONENT));
        // Only the way back depends on it.
        let is_over = pack.as_ref().and_then(|pack| pack.status.as_ref()?.canary.as_ref()).is_none();
        let asked: &[Arc<Pod>] = if is_over { &pods } else { &[] };
        let canary = self.canary(key, view, routing, &routers, asked).await;
        Ok(Some(Observed {
            runtime,
            pack,
            registry,
            policies,
            provider,
            secrets,
            config_maps,
            deployment,
            tools,
            schemas,
            pods,
            canary,
        }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        super::decide(observed, &self.settings, now)
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        super::decide::refused(observed, failure, now)
    }
}

impl RuntimeController {
    async fn canary(
        &self,
        key: &Key,
        view: &View,
        routing: Option<Arc<ConfigMap>>,
        routers: &[Arc<Pod>],
        pods: &[Arc<Pod>],
    ) -> Canary {
        let near = |name: String| Key::new(&key.namespace, name);
        let services = [names::stable_service(&key.name), names::canary(&key.name)];
        let mut canary = Canary {
            deployment: view.cached::<Deployment>(&near(names::canary(&key.name))),
            router: view.cached::<Deployment>(&near(names::router(&key.name))),
            service: view.cached::<Service>(key),
            services: services.into_iter().filter_map(|name| view.cached::<Service>(&near(name))).collect(),
            ..Canary::default()
        };
        if routing.is_some() {
            let reports = routers.iter().filter(|pod| is_running(pod)).map(|pod| async {
                let answer = self.ask(pod, FACADE_HEALTH_PORT, "/report").await;
                answer.and_then(|value| serde_json::from_value(value).ok())
            });
            canary.reports = futures::future::join_all(reports).await;
            let playing = pods.iter().filter(|pod| is_running(pod)).map(|pod| async {
                let answer = self.ask(pod, RUNTIME_HEALTH_PORT, "/pack").await?;
                answer["digest"].as_str().map(ToOwned::to_owned)
            });
            canary.playing = futures::future::join_all(playing).await;
        }
        Canary { routing, ..canary }
    }

    async fn ask(&self, pod: &Pod, port: i32, path: &str) -> Option<serde_json::Value> {
        let (namespace, pod) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let server = Server { namespace, pod, port: u16::try_from(port).ok()? };
        self.settings.ask.get(&server, path).await
    }
}

/// Whether a canary is wanted, or something of one is left.
fn is_in_canary(runtime: &AgentRuntime, pack: &Key, routing: &Key, view: &View) -> bool {
    let wanted = view.cached::<PromptPack>(pack).and_then(|pack| pack.status.as_ref()?.canary.clone());
    let known = runtime.status.as_ref().and_then(|status| status.canary.as_ref());
    wanted.is_some() || known.is_some() || view.cached::<ConfigMap>(routing).is_some()
}

fn component_in<const N: usize>(components: [&str; N]) -> Selector {
    let components = components.into_iter().map(ToOwned::to_owned).collect();
    Expression::In(names::COMPONENT_LABEL.into(), components).into()
}

fn is(pod: &Pod, component: &str) -> bool {
    pod.labels().get(names::COMPONENT_LABEL).is_some_and(|label| label == component)
}

/// Whether a Pod could answer: it runs, and nobody has told it to end.
fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
}

/// The provider that an agent refers to: its own reference, or its pack's when it has no provider at all.
pub(super) fn provider_of<'a>(
    runtime: &'a AgentRuntime,
    pack: Option<&'a PromptPack>,
) -> Option<&'a ProviderReference> {
    let own = runtime.spec.provider_ref.as_ref();
    let inherited = || pack.and_then(|pack| pack.spec.provider_ref.as_ref());
    if runtime.spec.provider.is_some() { own } else { own.or_else(inherited) }
}

fn runtimes(view: &View, namespace: &str, wanted: impl Fn(&AgentRuntime) -> bool) -> Vec<Key> {
    let all = view.list::<AgentRuntime>(namespace);
    all.iter().filter(|runtime| wanted(runtime)).map(|runtime| Key::of(&**runtime)).collect()
}

fn of_pack(view: &View, namespace: &str, name: &str) -> Vec<Key> {
    runtimes(view, namespace, |runtime| runtime.spec.prompt_pack_ref.name == name)
}

fn of_registry(view: &View, namespace: &str, name: &str) -> Vec<Key> {
    let uses = |runtime: &AgentRuntime| runtime.spec.tool_registry_ref.as_ref().is_some_and(|uses| uses.name == name);
    runtimes(view, namespace, uses)
}

fn of_provider(view: &View, namespace: &str, name: &str) -> Vec<Key> {
    let names = |reference: Option<&ProviderReference>| reference.is_some_and(|reference| reference.name == name);
    let mut keys = runtimes(view, namespace, |runtime| names(runtime.spec.provider_ref.as_ref()));
    let packs = view.list::<PromptPack>(namespace);
    for pack in packs.iter().filter(|pack| names(pack.spec.provider_ref.as_ref())) {
        keys.extend(of_pack(view, namespace, &pack.name_any()));
    }
    keys
}

fn of_secret(view: &View, namespace: &str, name: &str) -> Vec<Key> {
    let mut keys = runtimes(view, namespace, |runtime| Uses::of(runtime, None, None, false).secrets.contains(name));
    for provider in view.list::<Provider>(namespace) {
        if provider.spec.secret_ref.as_ref().is_some_and(|secret| secret.name == name) {
            keys.extend(of_provider(view, namespace, &provider.name_any()));
        }
    }
    for registry in view.list::<ToolRegistry>(namespace) {
        let uses = |handler: &api::omnia::Handler| handler.auth_secret_ref().is_some_and(|secret| secret.name == name);
        if registry.spec.handlers.iter().any(uses) {
            keys.extend(of_registry(view, namespace, &registry.name_any()));
        }
    }
    keys
}
