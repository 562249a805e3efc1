//! What a decision about an Agent depends on.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kubeopencode::{Agent, AgentTemplate, KubeOpenCodeConfig, KubeOpenCodeConfigSpec, Task, TaskPhase, names};
use engine::{Controller, Decision, Error, Failure, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use kube::ResourceExt;
use kube::core::{Expression, PartialObjectMeta, Selector};

use crate::kubeopencode::host::{ObservedAgent, cluster_config};
use crate::kubeopencode::owner::{MANAGED_BY, belongs_to};
use crate::pod::{System, config_maps_needed};

/// Keeps Agents as they are declared.
pub struct AgentController {
    /// Images and the like.
    pub system: System,
}

/// What a decision about an Agent depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Agent and its template.
    pub host: ObservedAgent,
    /// Settings of the whole cluster.
    pub cluster: Option<KubeOpenCodeConfigSpec>,
    /// `ConfigMaps` that the contexts name, as far as they exist.
    pub config_maps: BTreeMap<String, ConfigMap>,
    /// The server's Deployment.
    pub deployment: Option<Arc<Deployment>>,
    /// The file carrier that is there now, in case it is no longer wanted.
    pub config_map: Option<Arc<ConfigMap>>,
    /// Claims that are there already; they are never changed.
    pub claims: Vec<String>,
    /// The server's Pods, for what they say about themselves.
    pub pods: Vec<Arc<Pod>>,
    /// How many Tasks of this Agent have not ended.
    pub unfinished: usize,
    /// A token for those who bring files, when there is none yet.
    pub new_token: Option<String>,
}

type ConfigMapName = PartialObjectMeta<ConfigMap>;

impl Controller for AgentController {
    const NAME: &'static str = "kubeopencode-agent";
    type Observed = Observed;

    fn watches(&self) -> Watches {
        let ours: Selector = Expression::Equal(MANAGED_BY.0.into(), MANAGED_BY.1.into()).into();
        let of_agents: Selector = Expression::Exists(names::AGENT_LABEL.into()).into();
        // A Task's own is as good as gone when the Task is, and there are thousands.
        let not_of_tasks: Selector = Expression::DoesNotExist(names::TASK_LABEL.into()).into();
        Watches::of::<Agent>()
            .owned_selected::<Deployment>("Agent", ours.clone())
            .owned_selected::<Service>("Agent", ours.clone())
            .owned_selected::<PersistentVolumeClaim>("Agent", ours)
            .mapped_selected::<Pod>(of_agents, |pod, _| {
                let agent = pod.labels().get(names::AGENT_LABEL).cloned().unwrap_or_default();
                vec![Key::new(pod.namespace().unwrap_or_default(), agent)]
            })
            .mapped::<AgentTemplate>(|template, view| {
                let follows = |agent: &Agent| {
                    agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == template.name_any())
                };
                agents(view, &template.namespace().unwrap_or_default(), follows)
            })
            .mapped_selected::<ConfigMapName>(not_of_tasks, |map, view| {
                let name = map.metadata.name.clone().unwrap_or_default();
                let namespace = map.metadata.namespace.clone().unwrap_or_default();
                let uses = |agent: &Agent| uses(agent, &name) || name == names::server_config_map(&agent.name_any());
                let mut keys = agents(view, &namespace, uses);
                let templates = view.list::<AgentTemplate>(&namespace);
                for template in
                    templates.iter().filter(|template| names_map(template.spec.blueprint.contexts.as_ref(), &name))
                {
                    keys.extend(agents(view, &namespace, |agent| {
                        agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == template.name_any())
                    }));
                }
                keys
            })
            .changes::<Task>(|change, view| {
                let seen = |task: &Option<Arc<Task>>| task.as_ref().map(|task| is_unfinished(task));
                if seen(&change.before) == seen(&change.after) {
                    return Vec::new();
                }
                let tasks = change.before.iter().chain(&change.after);
                let agents =
                    tasks.filter_map(|task| Some(Key::new(task.namespace()?, &task.spec.agent_ref.as_ref()?.name)));
                // Only one that sleeps when it is idle has an interest in its Tasks.
                let sleeps = |key: &Key| view.cached::<Agent>(key).is_some_and(|agent| agent.spec.standby.is_some());
                agents.filter(sleeps).collect()
            })
            .mapped::<KubeOpenCodeConfig>(|_, view| agents(view, "", |_| true))
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let Some(agent) = view.cached::<Agent>(key) else { return Ok(None) };
        if agent.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let host = ObservedAgent::of(agent, view).await?;
        let contexts = host.blueprint().ok().and_then(|blueprint| blueprint.contexts).unwrap_or_default();
        let mut config_maps = BTreeMap::new();
        for name in config_maps_needed(&contexts) {
            if let Some(map) = view.live::<ConfigMap>(&Key::new(&key.namespace, &name)).await? {
                config_maps.insert(name, (*map).clone());
            }
        }
        let own = Key::new(&key.namespace, names::server_config_map(&key.name));
        let config_map =
            if view.cached::<ConfigMapName>(&own).is_some() { view.live::<ConfigMap>(&own).await? } else { None };
        let mut claims = Vec::new();
        for name in [names::sessions_claim(&key.name), names::workspace_claim(&key.name)] {
            if view.get::<PersistentVolumeClaim>(&Key::new(&key.namespace, &name)).await?.is_some() {
                claims.push(name);
            }
        }
        let deployment = view.cached::<Deployment>(&Key::new(&key.namespace, names::deployment(&key.name)));
        let is_server = |pod: &Arc<Pod>| pod.labels().get(names::AGENT_LABEL) == Some(&key.name);
        let pods = view.list::<Pod>(&key.namespace).into_iter().filter(is_server).collect();
        let refers =
            |task: &&Arc<Task>| task.spec.agent_ref.as_ref().is_some_and(|reference| reference.name == key.name);
        let unfinished =
            view.list::<Task>(&key.namespace).iter().filter(refers).filter(|task| is_unfinished(task)).count();
        let cluster = cluster_config(view);
        let new_token = if self.system.helps() { new_token(&host.agent, view).await? } else { None };
        Ok(Some(Observed { host, cluster, config_maps, deployment, config_map, claims, pods, unfinished, new_token }))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        super::decide(observed, &self.system, now)
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        super::decide::refused(observed, failure, now)
    }
}

/// A token, unless this very Agent has one. Chance has no place in a decision, so it is drawn here.
async fn new_token(agent: &Agent, view: &View) -> Result<Option<String>, Error> {
    let key = Key::new(agent.namespace().unwrap_or_default(), names::context_secret(&agent.name_any()));
    let present = view.live::<Secret>(&key).await?;
    let ours = present.is_some_and(|secret| belongs_to(&*secret, &agent.uid().unwrap_or_default()));
    Ok((!ours).then(|| hex::encode(rand::random::<[u8; 32]>())))
}

fn agents(view: &View, namespace: &str, wanted: impl Fn(&Agent) -> bool) -> Vec<Key> {
    view.list::<Agent>(namespace).iter().filter(|agent| wanted(agent)).map(|agent| Key::of(&**agent)).collect()
}

fn uses(agent: &Agent, config_map: &str) -> bool {
    names_map(agent.spec.blueprint.contexts.as_ref(), config_map)
}

fn names_map(contexts: Option<&Vec<api::kubeopencode::ContextItem>>, config_map: &str) -> bool {
    config_maps_needed(contexts.into_iter().flatten()).contains(config_map)
}

fn is_unfinished(task: &Task) -> bool {
    !task.status.as_ref().and_then(|status| status.phase).is_some_and(TaskPhase::is_final)
}
