//! A small world for controllers: a plane, a clock that is moved by hand, a stand-in for the node, and bad weather.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use api::kubeopencode::{Agent, AgentTemplate, Task, TaskPhase, names};
use engine::{Clock as _, Engine, VirtualClock};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use orrery_controllers::Options;
use orrery_controllers::kubeopencode::session::NoSessions;
use serde_json::{Value, json};
use testkit::faults::{Fault, Faults};
use testkit::{Chance, Feed, Plane, Reader};

use crate::canary::{self, Routers};

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Nothing.
    Calm,
    /// One write.
    At(Fault),
    /// The process hears of changes late, and of each kind in its order: what a watch of the API promises.
    Late(u64),
    /// The process hears of changes late, twice, in any order or not at all: worse than the API's promise.
    Stale(u64),
    /// The same, and there are two processes that both believe to lead.
    Leaders(u64),
    /// The same, and one write in ten goes wrong.
    Storm(u64),
}

/// Adds the controllers to an engine: the real ones, or some with a defect put back.
pub type Install = fn(Engine) -> Engine;

pub fn controllers(engine: Engine) -> Engine {
    let mut options = Options::default();
    options.omnia.router_image = Some("forever".into());
    options.omnia.ask = Arc::new(Routers(engine.client().clone()));
    orrery_controllers::install(engine, &options, Arc::new(NoSessions))
}

/// A process with controllers.
struct Process {
    engine: Engine,
    faults: Faults,
    feed: Feed,
}

pub struct World {
    pub plane: Arc<Plane>,
    client: kube::Client,
    reader: Reader,
    /// Runs share a plane, because installing the definitions takes longest; each has a namespace of its own.
    pub namespace: String,
    pub clock: VirtualClock,
    weather: Weather,
    chance: Chance,
    install: Install,
    processes: Vec<Process>,
    most: Option<usize>,
    /// A user who deletes every scheduled Task as soon as it is there, and every Pod as soon as it has ended.
    pub hasty: bool,
    memory: Memory,
    /// Up to which revision everything was checked.
    checked: u64,
}

/// What may never be taken back.
#[derive(Default)]
struct Memory {
    canaries: canary::Memory,
    admitted: BTreeSet<String>,
    ended: BTreeMap<String, TaskPhase>,
    scheduled: BTreeMap<String, String>,
}

impl World {
    pub async fn on(plane: Arc<Plane>, namespace: &str, weather: Weather, install: Install) -> Self {
        let client = plane.client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let metadata = ObjectMeta { name: Some(namespace.into()), ..ObjectMeta::default() };
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
        let clock = VirtualClock::at(Timestamp::from_second(Timestamp::now().as_second()).unwrap());
        let (seed, processes) = match weather {
            Weather::Calm | Weather::At(_) => (0, 1),
            Weather::Late(seed) | Weather::Stale(seed) => (seed, 1),
            Weather::Leaders(seed) | Weather::Storm(seed) => (seed, 2),
        };
        let mut world = Self {
            reader: plane.reader(namespace),
            plane,
            client,
            namespace: namespace.into(),
            clock,
            weather,
            chance: Chance::of(seed),
            install,
            processes: Vec::new(),
            most: None,
            hasty: false,
            memory: Memory::default(),
            checked: 0,
        };
        for _ in 0..processes {
            let faults = match weather {
                Weather::At(fault) => Faults::new(Some(fault)),
                Weather::Storm(_) => Faults::often(world.chance.clone(), 10),
                _ => Faults::new(None),
            };
            let process = world.process(faults);
            world.processes.push(process);
        }
        world
    }

    fn process(&self, faults: Faults) -> Process {
        let options = engine::Options { namespaces: vec![self.namespace.clone()], ..engine::Options::default() };
        let engine = Engine::new(faults.client(&self.plane), Arc::new(self.clock.clone()), options);
        let engine = (self.install)(engine);
        let feed = Feed::new(&self.plane, engine.watched());
        Process { engine, faults, feed }
    }

    pub fn writes(&self) -> usize {
        self.processes.iter().map(|process| process.faults.writes()).sum()
    }

    /// From now on the API takes no writes of paths with this in them; `None` opens it again.
    pub fn close(&self, path: Option<&str>) {
        for process in &self.processes {
            process.faults.close(path);
        }
    }

    /// From now on no more than so many Tasks may run at once.
    pub fn at_most(&mut self, running: usize) {
        self.most = Some(running);
    }

    fn api_of(&self, kind: &str) -> Api<DynamicObject> {
        let omnia = ["AgentPolicy", "AgentRuntime", "PromptPack", "Provider", "ToolRegistry"];
        let group = if omnia.contains(&kind) { "omnia.altairalabs.ai" } else { "kubeopencode.io" };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", kind));
        if kind == "KubeOpenCodeConfig" {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        }
    }

    /// Creates an object as a user would.
    pub async fn create(&self, manifest: &str) {
        let value: Value = crate::support::yaml(manifest);
        let api = self.api_of(value["kind"].as_str().unwrap());
        api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await.unwrap();
    }

    /// Changes an object as a user would.
    pub async fn change(&self, kind: &str, name: &str, patch: Value) {
        self.api_of(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn annotate(&self, kind: &str, name: &str, annotation: &str) {
        self.change(kind, name, json!({ "metadata": { "annotations": { annotation: "true" } } })).await;
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        self.api_of(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The objects of a kind (`apps/deployments`) in the world's namespace.
    pub fn objects<K: serde::de::DeserializeOwned + Send + Sync + 'static>(&self, resource: &str) -> Vec<Arc<K>> {
        self.reader.objects(resource)
    }

    pub fn tasks(&self) -> Vec<Arc<Task>> {
        self.objects("kubeopencode.io/tasks")
    }

    pub fn pods(&self) -> Vec<Arc<Pod>> {
        self.objects("/pods")
    }

    /// Lets the processes hear everything, before they do anything about it.
    pub async fn tell(&mut self) {
        for process in &mut self.processes {
            process.catch_up().await;
        }
    }

    /// Lets the controllers work until nothing is ready; a process that ended is started again.
    pub async fn work(&mut self) {
        for _ in 0..3000 {
            for index in 0..self.processes.len() {
                if self.processes[index].faults.is_dead() {
                    let faults = self.processes[index].faults.clone();
                    faults.restart();
                    self.processes[index] = self.process(faults);
                    self.processes[index].catch_up().await;
                }
            }
            let index = self.chance.below(self.processes.len());
            let done = self.processes[index].step(self.weather, &self.chance).await;
            match done {
                Some(done) => {
                    self.check(&done);
                    self.delete_in_haste().await;
                }
                None if self.is_at_rest().await => return,
                None => {}
            }
        }
        panic!("the controllers never come to rest");
    }

    async fn delete_in_haste(&self) {
        if !self.hasty {
            return;
        }
        let scheduled = |task: &Task| {
            task.labels().contains_key(names::CRON_TASK_LABEL) && task.metadata.deletion_timestamp.is_none()
        };
        for task in self.tasks().iter().filter(|task| scheduled(task)) {
            self.delete("Task", &task.name_any()).await;
        }
        let over = |pod: &Pod| pod.finalizers().is_empty() && has_ended(pod);
        for pod in self.pods().iter().filter(|pod| over(pod)) {
            let _ = self.api::<Pod>().delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        }
    }

    /// Whether nobody has anything to do, even when everybody knows everything.
    async fn is_at_rest(&mut self) -> bool {
        let now = self.clock.now();
        self.tell().await;
        let idle = |process: &Process| {
            let due = process.engine.next_timer().is_some_and(|timer| timer <= now);
            !process.faults.is_dead() && !due && process.engine.ready().is_empty()
        };
        self.processes.iter().all(idle)
    }

    /// Lets time pass in the controllers' own steps, while the node does its part, until `done` holds.
    pub async fn until(&mut self, most: Duration, done: impl Fn(&Self) -> bool) {
        let end = self.clock.now() + most;
        loop {
            self.work().await;
            if self.node().await {
                continue;
            }
            if done(self) {
                return;
            }
            let next = self.next_timer().unwrap_or(end);
            assert!(next < end, "in {:?}, not done by {end}:\n{}", self.weather, self.told());
            self.clock.set(next.max(self.clock.now() + Duration::from_millis(1)));
        }
    }

    /// What there is, for a run that does not come to its end.
    fn told(&self) -> String {
        let omnia = ["promptpacks", "agentruntimes", "toolregistries"].map(|plural| {
            let objects = self.objects::<Value>(&format!("omnia.altairalabs.ai/{plural}"));
            objects.iter().map(|object| format!("{plural}: {}", object["status"])).collect::<Vec<_>>()
        });
        format!("{:#?}\n{}", summary(&self.tasks()), omnia.concat().join("\n"))
    }

    /// Lets an exact time pass.
    pub async fn pass(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            self.work().await;
            if self.node().await {
                continue;
            }
            match self.next_timer().filter(|next| *next < end) {
                Some(next) => self.clock.set(next.max(self.clock.now() + Duration::from_millis(1))),
                None => break,
            }
        }
        self.clock.set(end);
        self.work().await;
    }

    /// When a controller looks at something again by itself.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.processes.iter().filter_map(|process| process.engine.next_timer()).min()
    }

    /// What must hold after every step.
    fn check(&mut self, after: &str) {
        let revision = self.plane.store().revision().0;
        if std::mem::replace(&mut self.checked, revision) == revision {
            return;
        }
        let (tasks, pods) = (self.tasks(), self.pods());
        let templates: Vec<Arc<AgentTemplate>> = self.objects("kubeopencode.io/agenttemplates");
        let agents: Vec<Arc<Agent>> = self.objects("kubeopencode.io/agents");
        let of_templates = templates.iter().filter_map(|template| Some(&template.status.as_ref()?.active_tasks));
        let of_agents = agents.iter().filter_map(|agent| Some(&agent.status.as_ref()?.active_tasks));
        let slots: BTreeSet<String> = of_templates.chain(of_agents).flatten().map(|slot| slot.uid.clone()).collect();
        let broken = one_pod_a_task(&tasks, &pods)
            .or_else(|| self.most.and_then(|most| too_many(&tasks, &pods, most)))
            .or_else(|| templates.iter().find_map(|template| started_twice(template)))
            .or_else(|| self.memory.overtaken(&tasks, &slots).filter(|_| self.is_told_in_order()))
            .or_else(|| self.memory.taken_back(&tasks))
            .or_else(|| self.memory.canaries.broken(&self.reader));
        assert!(broken.is_none(), "in {:?}, after {after}: {}", self.weather, broken.unwrap_or_default());
    }

    /// Whether processes know of every Task that is older than one they know of. A watch of the API promises so; the
    /// weather that is worse than its promise can hide one, and then a younger one may be first.
    fn is_told_in_order(&self) -> bool {
        matches!(self.weather, Weather::Calm | Weather::At(_) | Weather::Late(_))
    }

    /// One round of the node and of Kubernetes: new Pods run, running ones do what their image says, deleted ones end,
    /// Deployments are ready, and what lost its owner goes.
    async fn node(&self) -> bool {
        let mut changed = false;
        let (api, tasks) = (self.api::<Pod>(), self.tasks());
        changed |= self.routers().await;
        for pod in self.pods().into_iter().filter(|pod| !canary::is_router(pod)) {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            let over = phase == "Succeeded" || phase == "Failed";
            let leaving = pod.metadata.deletion_timestamp.is_some();
            let next = match phase.as_str() {
                _ if over => None,
                _ if leaving => Some("Failed"),
                "Running" => end_of(&pod),
                _ => Some("Running"),
            };
            let name = pod.name_any();
            let alone = is_alone(&pod, &tasks);
            if let Some(next) = next {
                let patch = Patch::Merge(json!({ "status": { "phase": next } }));
                api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
                changed = true;
            } else if leaving && over && pod.metadata.deletion_grace_period_seconds != Some(0) {
                let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
                changed = true;
            } else if alone && !leaving {
                let _ = api.delete(&name, &DeleteParams::default()).await;
                changed = true;
            }
        }
        for deployment in self.objects::<Deployment>("apps/deployments") {
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let status = deployment.status.clone().unwrap_or_default();
            let there = status.ready_replicas.unwrap_or(0);
            if wanted != there || status.observed_generation != deployment.metadata.generation {
                let patch = Patch::Merge(json!({ "status": { "readyReplicas": wanted, "replicas": wanted,
                    "updatedReplicas": wanted, "observedGeneration": deployment.metadata.generation } }));
                let api = self.api::<Deployment>();
                api.patch_status(&deployment.name_any(), &PatchParams::default(), &patch).await.unwrap();
                changed = true;
            }
        }
        changed
    }
}

impl Process {
    /// Hears everything; what was lost is learned from a list, as after a start or when a watch lost its place.
    async fn catch_up(&mut self) {
        for (kind, event) in self.feed.all() {
            self.engine.deliver(&kind, &event);
        }
        while let Some(kind) = self.feed.lost.pop() {
            // It fails only when the process has ended, and then it is started again.
            if self.engine.relist(&kind).await.is_err() {
                return;
            }
        }
    }

    async fn step(&mut self, weather: Weather, chance: &Chance) -> Option<String> {
        if matches!(weather, Weather::Calm | Weather::At(_)) {
            return told(self.engine.step().await);
        }
        let heard =
            if let Weather::Late(_) = weather { self.feed.some_in_order(chance) } else { self.feed.some(chance) };
        for (kind, event) in heard {
            self.engine.deliver(&kind, &event);
        }
        let ready = self.engine.ready();
        if ready.is_empty() || chance.one_in(2) {
            return told(self.engine.step().await);
        }
        let (controller, key) = &ready[chance.below(ready.len())];
        let outcome = self.engine.reconcile(controller, key).await?;
        Some(format!("{controller} {key}: {outcome:?}"))
    }
}

fn told(step: Option<(&'static str, engine::Key, engine::Outcome)>) -> Option<String> {
    step.map(|(controller, key, outcome)| format!("{controller} {key}: {outcome:?}"))
}

/// Whether the Task of a Pod is gone.
fn is_alone(pod: &Pod, tasks: &[Arc<Task>]) -> bool {
    let is_gone = |uid: &String| !tasks.iter().any(|task| task.uid().as_ref() == Some(uid));
    pod.owner_references().iter().all(|owner| owner.kind == "Task" && is_gone(&owner.uid))
}

/// What a running Pod does next: its image says.
fn end_of(pod: &Pod) -> Option<&'static str> {
    match pod.spec.as_ref()?.containers[0].image.as_deref()? {
        "forever" => None,
        "broken" => Some("Failed"),
        _ => Some("Succeeded"),
    }
}

/// A plane with the definitions installed.
pub async fn plane() -> Arc<Plane> {
    // Made once for all scenarios of the process: that takes longer than to install them.
    static DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(api::crds);
    let plane = Plane::in_memory().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client());
    for definition in DEFINITIONS.iter() {
        definitions.create(&PostParams::default(), definition).await.unwrap();
    }
    Arc::new(plane)
}

pub fn phase(task: &Task) -> Option<TaskPhase> {
    task.status.as_ref().and_then(|status| status.phase)
}

/// Every Task has ended, and its Pod was let go.
pub fn all_over(world: &World) -> bool {
    let kept = |pod: &Pod| !pod.finalizers().is_empty();
    let over = |task: &Task| phase(task).is_some_and(TaskPhase::is_final);
    world.tasks().iter().all(|task| over(task)) && !world.pods().iter().any(|pod| kept(pod))
}

fn one_pod_a_task(tasks: &[Arc<Task>], pods: &[Arc<Pod>]) -> Option<String> {
    tasks.iter().find_map(|task| {
        let own = pods.iter().filter(|pod| pod.labels().get(names::TASK_LABEL) == Some(&task.name_any())).count();
        (own > 1).then(|| format!("{} has {own} Pods", task.name_any()))
    })
}

fn too_many(tasks: &[Arc<Task>], pods: &[Arc<Pod>], most: usize) -> Option<String> {
    let running: Vec<String> =
        tasks.iter().filter(|task| phase(task) == Some(TaskPhase::Running)).map(|task| task.name_any()).collect();
    let alive: Vec<String> = pods.iter().filter(|pod| !has_ended(pod)).map(|pod| pod.name_any()).collect();
    (running.len() > most || alive.len() > most).then(|| format!("{running:?} run at once, in {alive:?}"))
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// A start that counts twice takes a place from someone else.
fn started_twice(template: &AgentTemplate) -> Option<String> {
    let history = template.status.as_ref()?.task_start_history.clone();
    let different: BTreeSet<String> = history.iter().map(|start| start.task_name.clone()).collect();
    (different.len() < history.len()).then(|| format!("starts were counted twice: {history:?}"))
}

impl Memory {
    /// First come, first served: nobody gets a slot while an older one waits.
    fn overtaken(&mut self, tasks: &[Arc<Task>], slots: &BTreeSet<String>) -> Option<String> {
        let uid = |task: &&Arc<Task>| task.uid().unwrap_or_default();
        let age = |task: &&Arc<Task>| (task.creation_timestamp(), task.uid());
        let is_new = |task: &&Arc<Task>| slots.contains(&uid(task)) && !self.admitted.contains(&uid(task));
        let youngest = tasks.iter().filter(is_new).max_by_key(age)?;
        self.admitted.extend(slots.iter().cloned());
        let waits = |task: &&Arc<Task>| {
            let is_stopped = task.annotations().contains_key(names::STOP_ANNOTATION);
            let may_start = phase(task).is_none_or(|phase| matches!(phase, TaskPhase::Pending | TaskPhase::Queued));
            may_start && !is_stopped && task.metadata.deletion_timestamp.is_none()
        };
        let host = |task: &Task| (task.spec.agent_ref.clone(), task.spec.template_ref.clone());
        let is_passed = |task: &&Arc<Task>| age(task) < age(&youngest) && !self.admitted.contains(&uid(task));
        let mut line = tasks.iter().filter(waits).filter(|task| host(task) == host(youngest));
        let older = line.find(is_passed)?;
        Some(format!("{} has a slot before {}, which is older", youngest.name_any(), older.name_any()))
    }

    fn taken_back(&mut self, tasks: &[Arc<Task>]) -> Option<String> {
        for task in tasks {
            let (uid, name) = (task.uid().unwrap_or_default(), task.name_any());
            let now = phase(task);
            if let Some(end) = self.ended.get(&uid).filter(|end| Some(**end) != now) {
                return Some(format!("{name} was {end:?} and is {now:?}"));
            }
            if let Some(end) = now.filter(|phase| phase.is_final()) {
                self.ended.insert(uid.clone(), end);
            }
            if task.labels().contains_key(names::CRON_TASK_LABEL) {
                let first = self.scheduled.entry(name.clone()).or_insert_with(|| uid.clone());
                if *first != uid {
                    return Some(format!("the instant of {name} ran twice"));
                }
            }
        }
        None
    }
}

/// The starts of Tasks, earliest first.
pub fn starts(tasks: &[Arc<Task>]) -> Vec<Timestamp> {
    let start = |task: &Arc<Task>| task.status.as_ref()?.start_time.as_ref().map(|time| time.0);
    let mut starts: Vec<Timestamp> = tasks.iter().filter_map(start).collect();
    starts.sort();
    starts
}

/// Whether in some window of this length more than `most` Tasks started.
pub fn exceeds(starts: &[Timestamp], most: usize, window: SignedDuration) -> bool {
    starts.windows(most + 1).any(|few| few[most].duration_since(few[0]) < window)
}

/// What is left when all is done, without what differs from run to run.
pub fn summary(tasks: &[Arc<Task>]) -> Vec<String> {
    let mut lines: Vec<String> = tasks
        .iter()
        .map(|task| {
            let status = task.status.clone().unwrap_or_default();
            let mut conditions: Vec<String> =
                status.conditions.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect();
            conditions.sort();
            let finalizers = task.finalizers().len();
            format!("{} {:?} {} {finalizers}", task.name_any(), status.phase, conditions.join(","))
        })
        .collect();
    lines.sort();
    lines
}
