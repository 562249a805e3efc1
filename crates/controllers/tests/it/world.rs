//! A small world for controllers: a plane, a clock that is moved by hand, a stand-in for the node, and faults.

use std::sync::Arc;
use std::time::Duration;

use api::kubeopencode::{Task, TaskPhase};
use engine::{Clock as _, Engine, VirtualClock};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use orrery_controllers::Options;
use orrery_controllers::kubeopencode::session::NoSessions;
use serde_json::{Value, json};
use testkit::Plane;
use testkit::faults::{Fault, Faults};

pub struct World {
    pub plane: Arc<Plane>,
    /// Runs share a plane, because installing the definitions takes longest; each has a namespace of its own.
    namespace: String,
    clock: VirtualClock,
    pub faults: Faults,
    engine: Engine,
}

impl World {
    pub async fn new() -> Self {
        Self::on(plane().await, "default", None).await
    }

    pub async fn on(plane: Arc<Plane>, namespace: &str, fault: Option<Fault>) -> Self {
        if namespace != "default" {
            let namespaces: Api<Namespace> = Api::all(plane.client());
            let metadata = ObjectMeta { name: Some(namespace.into()), ..ObjectMeta::default() };
            let created = Namespace { metadata, ..Namespace::default() };
            namespaces.create(&PostParams::default(), &created).await.unwrap();
        }
        let now = Timestamp::now();
        let clock = VirtualClock::at(Timestamp::from_second(now.as_second()).unwrap());
        let faults = Faults::new(fault);
        let engine = process(&faults, &plane, &clock, namespace);
        Self { plane, namespace: namespace.into(), clock, faults, engine }
    }

    /// Applies a manifest as a user would.
    pub async fn create(&self, manifest: &str) {
        let value: Value = crate::support::yaml(manifest);
        let kind = value["kind"].as_str().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kubeopencode.io", "v1alpha1", kind));
        let api: Api<DynamicObject> = if kind == "KubeOpenCodeConfig" {
            Api::all_with(self.plane.client(), &resource)
        } else {
            Api::namespaced_with(self.plane.client(), &self.namespace, &resource)
        };
        api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await.unwrap();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.plane.client(), &self.namespace)
    }

    pub async fn tasks(&self) -> Vec<Task> {
        self.api::<Task>().list(&ListParams::default()).await.unwrap().items
    }

    pub async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    async fn set_status<K>(&self, name: &str, status: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Lets the controllers work until nothing is ready; a process that ended is started again.
    pub async fn work(&mut self) -> usize {
        for steps in 0..1000 {
            if self.faults.is_dead() {
                self.faults.restart();
                self.engine = process(&self.faults, &self.plane, &self.clock, &self.namespace);
            }
            self.engine.refresh().await.unwrap_or_default();
            let Some((controller, key, outcome)) = self.engine.step().await else { return steps };
            self.check(&format!("{controller} {key}: {outcome:?}")).await;
        }
        panic!("the controllers never come to rest");
    }

    /// Lets time pass in the controllers' own steps, while the node does its part, until `done` holds.
    pub async fn until(&mut self, most: Duration, done: impl Fn(&[Task], &[Pod]) -> bool) {
        let end = self.clock.now() + most;
        loop {
            self.work().await;
            if self.node().await {
                continue;
            }
            if done(&self.tasks().await, &self.pods().await) {
                return;
            }
            let next = self.engine.next_timer().unwrap_or(end);
            assert!(
                next < end,
                "not done by {end}: {:#?}",
                self.tasks().await.iter().map(|task| &task.status).collect::<Vec<_>>()
            );
            self.clock.set(next.max(self.clock.now() + Duration::from_millis(1)));
        }
    }

    /// Lets an exact time pass.
    pub async fn pass(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            self.work().await;
            if self.node().await {
                continue;
            }
            match self.engine.next_timer().filter(|next| *next < end) {
                Some(next) => self.clock.set(next.max(self.clock.now() + Duration::from_millis(1))),
                None => break,
            }
        }
        self.clock.set(end);
        self.work().await;
    }

    async fn check(&self, after: &str) {
        let (tasks, pods) = (self.tasks().await, self.pods().await);
        let broken = one_pod_a_task(&tasks, &pods);
        assert!(broken.is_none(), "after {after}: {}", broken.unwrap_or_default());
    }

    /// One round of the node: new Pods run, running ones do what their image says, deleted ones end.
    async fn node(&self) -> bool {
        let mut changed = false;
        let api = self.api::<Pod>();
        for pod in self.pods().await {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            let over = phase == "Succeeded" || phase == "Failed";
            let leaving = pod.metadata.deletion_timestamp.is_some();
            let next = match phase.as_str() {
                _ if over => None,
                _ if leaving => Some("Failed"),
                "Running" => end_of(&pod),
                _ => Some("Running"),
            };
            if let Some(next) = next {
                self.set_status::<Pod>(&pod.name_any(), json!({ "phase": next })).await;
                changed = true;
            } else if leaving && over && pod.metadata.deletion_grace_period_seconds != Some(0) {
                let now = DeleteParams::default().grace_period(0);
                let _ = api.delete(&pod.name_any(), &now).await;
                changed = true;
            }
        }
        changed
    }
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
    let plane = Plane::start().await;
    let definitions: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
        Api::all(plane.client());
    for definition in api::crds() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    Arc::new(plane)
}

fn process(faults: &Faults, plane: &Plane, clock: &VirtualClock, namespace: &str) -> Engine {
    let options = engine::Options { namespaces: vec![namespace.into()], ..engine::Options::default() };
    let engine = Engine::new(faults.client(plane), Arc::new(clock.clone()), options);
    orrery_controllers::install(engine, &Options::default(), Arc::new(NoSessions))
}

pub fn phase(task: &Task) -> Option<TaskPhase> {
    task.status.as_ref().and_then(|status| status.phase)
}

pub fn all_over(tasks: &[Task], pods: &[Pod]) -> bool {
    let kept = |pod: &Pod| !pod.finalizers().is_empty();
    tasks.iter().all(|task| phase(task).is_some_and(TaskPhase::is_final)) && !pods.iter().any(kept)
}

/// No Task has two Pods, and none that has ended has a live one for long.
fn one_pod_a_task(tasks: &[Task], pods: &[Pod]) -> Option<String> {
    tasks.iter().find_map(|task| {
        let own = pods.iter().filter(|pod| pod.labels().get("kubeopencode.io/task") == Some(&task.name_any())).count();
        (own > 1).then(|| format!("{} has {own} Pods", task.name_any()))
    })
}

/// What is left when all is done, without what differs from run to run.
pub fn summary(tasks: &[Task]) -> Vec<String> {
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
