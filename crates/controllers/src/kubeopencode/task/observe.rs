//! What a decision about a Task depends on.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kubeopencode::account::Report;
use api::kubeopencode::{Agent, AgentTemplate, KubeOpenCodeConfig, KubeOpenCodeConfigSpec, Task, names};
use engine::{Change, Controller, Decision, Error, Failure, Key, View, Watches};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::core::{Expression, Selector};

use super::{Policy, decide, outcome};
use crate::ask::Server;
use crate::kubeopencode::host::{Host, ObservedAgent, cluster_config};
use crate::kubeopencode::owner::belongs_to;
use crate::kubeopencode::session::Sessions;
use crate::logs::Archive;
use crate::pod::config_maps_needed;

/// Runs Tasks.
pub struct TaskController {
    /// What the operator decided.
    pub policy: Policy,
    /// How agents are asked about sessions.
    pub sessions: Arc<dyn Sessions>,
    /// Where logs go before their Pod does.
    pub logs: Option<Archive>,
}

/// What a decision about a Task depends on.
#[derive(Clone, Debug)]
pub enum Observed {
    /// The Task is there.
    Task(Box<Present>),
    /// The Task is gone, and its Pod still waits to be let go.
    Orphan(Arc<Pod>),
}

/// A Task and everything around it.
#[derive(Clone, Debug)]
pub struct Present {
    /// The Task.
    pub task: Arc<Task>,
    /// What it runs on.
    pub host: Host,
    /// Settings of the whole cluster.
    pub cluster: Option<KubeOpenCodeConfigSpec>,
    /// `ConfigMaps` that the contexts name, as far as they exist; read only when the Task is about to start.
    pub config_maps: BTreeMap<String, ConfigMap>,
    /// The Pod of its name.
    pub pod: Option<Arc<Pod>>,
    /// What the agent says about the session, once the Pod has ended.
    pub session: Option<Report>,
}

impl Controller for TaskController {
    const NAME: &'static str = "kubeopencode-task";
    /// Who is next is decided by the queue, one after the other; those that may start do not wait for each other's disk.
    const WORKERS: usize = 8;
    type Observed = Observed;

    fn watches(&self) -> Watches {
        let of_tasks: Selector = Expression::Exists(names::TASK_LABEL.into()).into();
        Watches::of::<Task>()
            .trimmed::<Pod>(of_tasks, without_spec, |pod, _| {
                let task = pod.labels().get(names::TASK_LABEL).cloned().unwrap_or_default();
                vec![Key::new(pod.namespace().unwrap_or_default(), task)]
            })
            .changes::<Agent>(|change, view| {
                let name = |agent: &Arc<Agent>| (agent.namespace().unwrap_or_default(), agent.name_any());
                let active = |agent: &Agent| agent.status.as_ref().map(|s| s.active_tasks.clone()).unwrap_or_default();
                touched(
                    change,
                    view,
                    name,
                    active,
                    |agent| {
                        let status = agent.status.clone().unwrap_or_default();
                        (agent.metadata.generation, status.ready, status.suspended)
                    },
                    |task, name| task.spec.agent_ref.as_ref().is_some_and(|reference| reference.name == name),
                )
            })
            .changes::<AgentTemplate>(|change, view| {
                let name =
                    |template: &Arc<AgentTemplate>| (template.namespace().unwrap_or_default(), template.name_any());
                let active = |template: &AgentTemplate| {
                    template.status.as_ref().map(|status| status.active_tasks.clone()).unwrap_or_default()
                };
                touched(
                    change,
                    view,
                    name,
                    active,
                    |template| template.metadata.generation,
                    |task, name| task.spec.template_ref.as_ref().is_some_and(|reference| reference.name == name),
                )
            })
            .read::<KubeOpenCodeConfig>()
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Observed>, Error> {
        let pod_key = Key::new(&key.namespace, names::task_pod(&key.name));
        let Some(mut task) = view.get::<Task>(key).await? else {
            let pod = view.get::<Pod>(&pod_key).await?;
            return Ok(pod.filter(|pod| is_tracked(pod)).map(Observed::Orphan));
        };
        let started = task.status.as_ref().is_some_and(|status| status.pod_name.is_some());
        // Before the start nothing of that name should be there; after it, an absence must be sure.
        let pod = if started { view.get::<Pod>(&pod_key).await? } else { view.cached::<Pod>(&pod_key) };
        if started && needs_start(&task, pod.as_deref()) {
            // About to make a Pod: it may be missing because the Task has ended, and the cache does not know yet.
            match view.live::<Task>(key).await? {
                Some(live) if live.uid() == task.uid() => task = live,
                _ => return Ok(None),
            }
        }
        let host = host(&task, view).await?;
        let config_maps = if needs_start(&task, pod.as_deref()) {
            self.config_maps(&task, &host, view).await?
        } else {
            BTreeMap::new()
        };
        let session = self.ending(&task, &host, pod.as_deref(), view).await;
        let cluster = cluster_config(view);
        Ok(Some(Observed::Task(Box::new(Present { task, host, cluster, config_maps, pod, session }))))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> Decision {
        decide(observed, &self.policy, now)
    }

    fn refused(&self, observed: &Observed, failure: &Failure, now: Timestamp) -> Decision {
        super::decide::refused(observed, failure, now)
    }
}

impl TaskController {
    async fn config_maps(&self, task: &Task, host: &Host, view: &View) -> Result<BTreeMap<String, ConfigMap>, Error> {
        let (_, of_host) = host.contexts();
        let of_task = task.spec.contexts.iter().flatten();
        let mut found = BTreeMap::new();
        for name in config_maps_needed(of_host.iter().chain(of_task)) {
            let key = Key::new(task.namespace().unwrap_or_default(), &name);
            if let Some(map) = view.live::<ConfigMap>(&key).await? {
                found.insert(name, (*map).clone());
            }
        }
        Ok(found)
    }

    /// What must be asked before the end of a Task is recorded: the log is kept, the agent's session is read, and
    /// stopped when the Task was.
    async fn ending(&self, task: &Task, host: &Host, pod: Option<&Pod>, view: &View) -> Option<Report> {
        let pod = pod.filter(|pod| is_tracked(pod) && belongs_to(*pod, &task.uid().unwrap_or_default()))?;
        let state = outcome::pod_state(pod, view.now());
        let stopping = super::decide::stop_reason(task, view.now()).is_some();
        if matches!(state, outcome::PodState::Alive | outcome::PodState::Stuck { .. }) && !stopping {
            return None;
        }
        if let Some(logs) = &self.logs {
            logs.keep(view.client(), task, pod).await;
        }
        let Host::Agent(observed) = host else {
            return outcome::report(pod).filter(|report| report.session.id.is_some());
        };
        let server = server(&observed.agent, view).await?;
        let title = super::recipe::title(task);
        if stopping && !task.status.as_ref().and_then(|s| s.phase).is_some_and(api::kubeopencode::TaskPhase::is_final) {
            self.sessions.abort(&server, &title).await;
        }
        self.sessions.find(&server, &title).await
    }
}

/// The Pod that serves for an Agent now, if one does.
async fn server(agent: &Agent, view: &View) -> Option<Server> {
    let namespace = agent.namespace().unwrap_or_default();
    let label = format!("{}={}", names::AGENT_LABEL, agent.name_any());
    let pods = view.live_list::<Pod>(&namespace, &label).await.ok()?;
    let runs = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let pod = pods.iter().find(runs)?.name_any();
    Some(Server { namespace, pod, port: u16::try_from(agent.spec.port).ok()? })
}

/// Nobody reads what a Pod was made of, which is most of it.
fn without_spec(pod: &mut Pod) {
    pod.spec = None;
}

/// Whether the Pod waits for us to record its end.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == names::TRACKING_FINALIZER)
}

fn needs_start(task: &Task, pod: Option<&Pod>) -> bool {
    let phase = task.status.as_ref().and_then(|status| status.phase);
    pod.is_none() && !phase.is_some_and(api::kubeopencode::TaskPhase::is_final)
}

async fn host(task: &Task, view: &View) -> Result<Host, Error> {
    let namespace = task.namespace().unwrap_or_default();
    if let Some(reference) = &task.spec.agent_ref {
        let agent = view.get::<Agent>(&Key::new(&namespace, &reference.name)).await?;
        return Ok(match agent {
            Some(agent) => Host::Agent(ObservedAgent::of(agent, view).await?),
            None => Host::Missing(format!("Agent {}", reference.name)),
        });
    }
    let name = task.spec.template_ref.as_ref().map(|reference| reference.name.clone()).unwrap_or_default();
    let template = view.get::<AgentTemplate>(&Key::new(&namespace, &name)).await?;
    Ok(template.map_or_else(|| Host::Missing(format!("AgentTemplate {name}")), Host::Template))
}

/// The Tasks that a change of their host concerns: when only the list of admitted Tasks changed, those on it; else all
/// that have not ended.
fn touched<K, C: PartialEq>(
    change: &Change<K>,
    view: &View,
    name: impl Fn(&Arc<K>) -> (String, String),
    active: impl Fn(&K) -> Vec<api::kubeopencode::ActiveTask>,
    concern: impl Fn(&K) -> C,
    refers: impl Fn(&Task, &str) -> bool,
) -> Vec<Key> {
    let Some((namespace, name)) = change.after.as_ref().or(change.before.as_ref()).map(name) else { return Vec::new() };
    if let (Some(before), Some(after)) = (&change.before, &change.after)
        && concern(before) == concern(after)
    {
        let (before, after) = (active(before), active(after));
        let admitted = after.iter().filter(|task| !before.contains(task));
        return admitted.map(|task| Key::new(&namespace, &task.name)).collect();
    }
    let unfinished = |task: &&Arc<Task>| {
        let phase = task.status.as_ref().and_then(|status| status.phase);
        !phase.is_some_and(api::kubeopencode::TaskPhase::is_final)
    };
    let tasks = view.list::<Task>(&namespace);
    tasks.iter().filter(unfinished).filter(|task| refers(task, &name)).map(|task| Key::of(&**task)).collect()
}
