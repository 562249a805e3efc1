//! What a queue looks at.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kubeopencode::{
    ActiveTask, Agent, AgentStatus, AgentTemplate, AgentTemplateStatus, Task, TaskPhase, TaskStart, names,
};
use engine::{Change, Controller, Decision, Error, Event, Key, View, Watches};
use jiff::Timestamp;
use kube::ResourceExt;

use super::decide::{Admission, Candidate, Line, Stand, admit};
use crate::kubeopencode::host::{Host, ObservedAgent};

/// The queues of Agents.
pub struct AgentQueue;
/// The queues of templates, for Tasks that run from them directly.
pub struct TemplateQueue;

/// A host and its line.
pub struct Observed<K> {
    host: Arc<K>,
    line: Line,
}

impl Controller for AgentQueue {
    const NAME: &'static str = "kubeopencode-agent-queue";
    type Observed = Observed<Agent>;

    fn watches(&self) -> Watches {
        Watches::of::<Agent>()
            .changes::<Task>(|change, _| touched(change, |task| task.spec.agent_ref.as_ref().map(|r| r.name.clone())))
            .mapped::<AgentTemplate>(|template, view| {
                let agents = view.list::<Agent>(&template.namespace().unwrap_or_default());
                let follows = |agent: &&Arc<Agent>| {
                    agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == template.name_any())
                };
                agents.iter().filter(follows).map(|agent| Key::of(&**agent)).collect()
            })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Self::Observed>, Error> {
        let Some(agent) = view.cached::<Agent>(key) else { return Ok(None) };
        let observed = Host::Agent(ObservedAgent::of(Arc::clone(&agent), view).await?);
        let ready = agent.status.as_ref().is_some_and(|status| status.ready);
        let open = ready && agent.spec.suspend != Some(true);
        let refers = |task: &Task| task.spec.agent_ref.as_ref().is_some_and(|reference| reference.name == key.name);
        let line = line(&observed, key, view, open, refers).await?;
        Ok(line.map(|line| Observed { host: agent, line }))
    }

    fn decide(&self, observed: &Self::Observed, now: Timestamp) -> Decision {
        let current = observed.host.status.clone().unwrap_or_default();
        let admission = admit(&observed.line, now);
        let mut decision = told(&*observed.host, &current.active_tasks, &admission);
        let status = AgentStatus { active_tasks: admission.active, task_start_history: admission.history, ..current };
        decision.status(&*observed.host, observed.host.status.as_ref(), &status);
        decision
    }
}

impl Controller for TemplateQueue {
    const NAME: &'static str = "kubeopencode-template-queue";
    type Observed = Observed<AgentTemplate>;

    fn watches(&self) -> Watches {
        Watches::of::<AgentTemplate>().changes::<Task>(|change, _| {
            touched(change, |task| task.spec.template_ref.as_ref().map(|r| r.name.clone()))
        })
    }

    async fn observe(&self, key: &Key, view: &View) -> Result<Option<Self::Observed>, Error> {
        let Some(template) = view.cached::<AgentTemplate>(key) else { return Ok(None) };
        let refers = |task: &Task| task.spec.template_ref.as_ref().is_some_and(|reference| reference.name == key.name);
        let line = line(&Host::Template(Arc::clone(&template)), key, view, true, refers).await?;
        Ok(line.map(|line| Observed { host: template, line }))
    }

    fn decide(&self, observed: &Self::Observed, now: Timestamp) -> Decision {
        let current = observed.host.status.clone().unwrap_or_default();
        let admission = admit(&observed.line, now);
        let mut decision = told(&*observed.host, &current.active_tasks, &admission);
        let status =
            AgentTemplateStatus { active_tasks: admission.active, task_start_history: admission.history, ..current };
        decision.status(&*observed.host, observed.host.status.as_ref(), &status);
        decision
    }
}

/// What a change of the lists means beside the lists.
fn told<K: kube::Resource<DynamicType = ()>>(host: &K, before: &[ActiveTask], admission: &Admission) -> Decision {
    let mut decision = Decision::none();
    if let Some(at) = admission.look_again {
        decision.look_again(at);
    }
    for task in admission.active.iter().filter(|task| !before.contains(task)) {
        decision.event(Event::normal(host, "TaskAdmitted", "Admit", format!("Task {} may start", task.name)));
    }
    decision
}

/// The line of a host; `None` when it has no limits and nothing to clear.
async fn line(
    host: &Host,
    key: &Key,
    view: &View,
    open: bool,
    refers: impl Fn(&Task) -> bool,
) -> Result<Option<Line>, Error> {
    let limits = host.limits();
    let (active, history): (Vec<ActiveTask>, Vec<TaskStart>) = (host.active_tasks().to_vec(), host.history().to_vec());
    if limits.are_none() && active.is_empty() && history.is_empty() {
        return Ok(None);
    }
    let tasks = view.list::<Task>(&key.namespace);
    let tasks: Vec<Candidate> = tasks.iter().filter(|task| refers(task)).map(|task| candidate(task, view)).collect();
    let mut gone = BTreeSet::new();
    for task in active.iter().filter(|active| !tasks.iter().any(|task| task.uid == active.uid)) {
        let live = view.live::<Task>(&Key::new(&key.namespace, &task.name)).await?;
        if live.is_none_or(|live| live.uid().as_ref() != Some(&task.uid)) {
            gone.insert(task.uid.clone());
        }
    }
    Ok(Some(Line { limits, open, tasks, gone, active, history }))
}

fn candidate(task: &Task, view: &View) -> Candidate {
    Candidate {
        name: task.name_any(),
        namespace: task.namespace().unwrap_or_default(),
        uid: task.uid().unwrap_or_default(),
        created: task.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        stand: stand(task),
        early: !view.is_heard::<Task>(&Key::of(task)),
    }
}

fn stand(task: &Task) -> Stand {
    let phase = task.status.as_ref().and_then(|status| status.phase);
    let stop = task.annotations().get(names::STOP_ANNOTATION).is_some_and(|value| value == "true");
    match phase {
        Some(TaskPhase::Completed | TaskPhase::Failed) => Stand::Over,
        Some(TaskPhase::Running) => Stand::Started,
        _ if stop || task.metadata.deletion_timestamp.is_some() => Stand::Over,
        _ => Stand::Waiting,
    }
}

/// The queue concerned by a change of a Task: only when its stand changed.
fn touched(change: &Change<Task>, host: impl Fn(&Task) -> Option<String>) -> Vec<Key> {
    let seen = |task: &Option<Arc<Task>>| task.as_ref().map(|task| (task.uid(), stand(task)));
    if seen(&change.before) == seen(&change.after) {
        return Vec::new();
    }
    let tasks = change.before.iter().chain(&change.after);
    tasks.filter_map(|task| Some(Key::new(task.namespace().unwrap_or_default(), host(task)?))).collect()
}
