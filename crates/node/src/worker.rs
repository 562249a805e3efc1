//! One Pod's keeper: takes in what happens, decides, acts, writes the status.

mod prepare;
mod recover;
mod start;
mod stop;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::agent::Node;
use crate::driver::{Event, Sandbox, State as Reported};
use crate::environment::Kind;
use crate::lifecycle::{Action, Container, Ended, Outcome, State, count_crashes, decide, deletion_deadline};
use crate::probes::{self, Probed};
use crate::status::{self, Facts};

/// What a worker hears of.
pub enum Input {
    /// The Pod as it is now.
    Pod(Box<Pod>),
    /// The Pod is no longer in the API.
    Gone,
    /// A ConfigMap or Secret of its namespace changed.
    Changed(Kind, String),
    /// A container changed.
    Container(Event),
    /// The sandbox is gone.
    SandboxGone,
    /// A probe or a postStart hook came out.
    Probed(Probed),
    /// Nothing happened but time.
    Nothing,
}

/// Keeps one Pod.
pub struct Worker {
    node: Arc<Node>,
    pod: Box<Pod>,
    uid: String,
    directory: PathBuf,
    inputs: mpsc::Receiver<Input>,
    own: mpsc::Sender<Input>,
    sandbox: Option<Arc<dyn Sandbox>>,
    watcher: Option<AbortOnDropHandle<()>>,
    containers: BTreeMap<String, Container>,
    probing: HashMap<String, Vec<AbortOnDropHandle<()>>>,
    stopping: HashMap<String, AbortOnDropHandle<()>>,
    facts: Facts,
    /// Tries to open the sandbox that failed, and when to try again.
    tries: u32,
    retry: Option<Timestamp>,
    /// When tokens in volumes must be renewed.
    renew: Option<Timestamp>,
    closed: bool,
    gone: bool,
    written: Option<PodStatus>,
}

impl Worker {
    /// A worker for `pod`, and where to tell it things.
    pub fn new(node: Arc<Node>, pod: Pod) -> (Self, mpsc::Sender<Input>) {
        let (own, inputs) = mpsc::channel(256);
        let uid = pod.uid().unwrap_or_default();
        let facts = Facts { host: node.address.to_string(), isolation: node.driver.isolation(), ..Facts::default() };
        let worker = Self {
            directory: node.pods.join(&uid),
            uid,
            pod: Box::new(pod),
            inputs,
            own: own.clone(),
            sandbox: None,
            watcher: None,
            containers: BTreeMap::new(),
            probing: HashMap::new(),
            stopping: HashMap::new(),
            facts,
            tries: 0,
            retry: None,
            renew: None,
            closed: false,
            gone: false,
            written: None,
            node,
        };
        (worker, own)
    }

    /// Keeps the Pod until it is gone.
    pub async fn run(mut self) {
        self.recover().await;
        loop {
            let wake = self.turn().await;
            if self.gone {
                self.node.forget(&self.uid);
                return;
            }
            let sleep = async {
                match wake {
                    Some(time) => tokio::time::sleep(until(time)).await,
                    None => std::future::pending().await,
                }
            };
            let input = tokio::select! {
                input = self.inputs.recv() => input.unwrap_or(Input::Nothing),
                () = sleep => Input::Nothing,
            };
            self.take(input).await;
            while let Ok(input) = self.inputs.try_recv() {
                self.take(input).await;
            }
        }
    }

    async fn take(&mut self, input: Input) {
        match input {
            Input::Pod(pod) => self.pod = pod,
            Input::Gone => {
                self.close().await;
                self.remove_directory().await;
                self.gone = true;
            }
            Input::Changed(kind, name) => self.refresh_volumes(kind, &name).await,
            Input::Container(event) => self.note(event),
            Input::SandboxGone => self.lose_sandbox(),
            Input::Probed(probed) => self.note_probe(probed),
            Input::Nothing => {}
        }
    }

    /// Decides and acts until there is nothing left to do now. Returns when to look again.
    async fn turn(&mut self) -> Option<Timestamp> {
        if self.gone {
            return None;
        }
        if self.is_over() {
            self.close().await;
            if deletion_deadline(&self.pod).is_some() {
                self.delete_object().await;
            }
            return None;
        }
        let now = Timestamp::now();
        if self.renew.is_some_and(|time| time <= now) {
            self.renew_tokens().await;
        }
        let deleting = deletion_deadline(&self.pod).is_some();
        if self.sandbox.is_none() && !deleting && self.retry.is_none_or(|time| time <= now) && self.wants_sandbox(now) {
            self.open_sandbox().await;
        }
        let decision = decide(&self.pod, &self.containers, Timestamp::now());
        for action in &decision.actions {
            match action {
                // Without a sandbox there is nothing to start in; its own retry wakes us.
                Action::Start(name) if self.sandbox.is_some() => self.start(name).await,
                Action::Start(_) => {}
                Action::Stop { container, deadline } => self.stop(container, *deadline),
            }
        }
        if decision.outcome != Outcome::Open {
            self.close().await;
        }
        self.note_restarts();
        self.write_status(&decision.outcome).await;
        if decision.outcome != Outcome::Open && deleting {
            self.delete_object().await;
        }
        let acted = decision.actions.iter().any(|action| matches!(action, Action::Start(_))) && self.sandbox.is_some();
        let soon = acted.then(Timestamp::now);
        [decision.wake, self.retry.filter(|_| self.sandbox.is_none() && !deleting), self.renew, soon]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the API already says how the Pod ended.
    fn is_over(&self) -> bool {
        let phase = self.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    fn wants_sandbox(&self, now: Timestamp) -> bool {
        let decision = decide(&self.pod, &self.containers, now);
        decision.actions.iter().any(|action| matches!(action, Action::Start(_)))
    }

    fn note(&mut self, event: Event) {
        let Some(container) = self.containers.get_mut(&event.container) else { return };
        if event.attempt + 1 != container.attempts {
            return;
        }
        match event.state {
            Reported::Running { started } => {
                if container.state == State::Waiting {
                    container.state = State::Running { since: timestamp(started) };
                }
            }
            Reported::Ended(exit) => {
                let ended = self.describe_end(&event.container, event.attempt, exit);
                self.end(&event.container, ended);
            }
        }
    }

    fn end(&mut self, name: &str, ended: Ended) {
        self.probing.remove(name);
        self.stopping.remove(name);
        let is_init = self.declared_inits().any(|init| init == name);
        let Some(container) = self.containers.get_mut(name) else { return };
        container.crashes = count_crashes(container.crashes, &ended);
        container.ready = is_init && ended.code == 0;
        container.started = false;
        container.stopping = None;
        container.state = State::Ended(ended);
    }

    fn declared_inits(&self) -> impl Iterator<Item = &str> {
        let inits = self.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
        inits.into_iter().flatten().map(|container| container.name.as_str())
    }

    /// The Pod's processes went without being asked to: killed, or the machine was restarted.
    fn lose_sandbox(&mut self) {
        self.watcher = None;
        if self.sandbox.take().is_none() || self.closed {
            return;
        }
        self.facts.sandboxed = false;
        let names: Vec<String> = self.containers.keys().cloned().collect();
        for name in names {
            let Some(Container { state: State::Running { since }, attempts, .. }) = self.containers.get(&name) else {
                continue;
            };
            let ended = recover::lost(&self.directory, &name, attempts - 1, *since);
            self.end(&name, ended);
        }
    }

    fn note_probe(&mut self, probed: Probed) {
        let Some(container) = self.containers.get_mut(&probed.container) else { return };
        if probed.attempt + 1 != container.attempts || !matches!(container.state, State::Running { .. }) {
            return;
        }
        match probed.result {
            probes::Result::Started => {
                container.started = true;
                let has_readiness =
                    self.declared(&probed.container).is_some_and(|declared| declared.readiness_probe.is_some());
                if let (false, Some(container)) = (has_readiness, self.containers.get_mut(&probed.container)) {
                    container.ready = true;
                }
            }
            probes::Result::Ready(ready) => container.ready = ready,
            probes::Result::Failed { kind, words } => {
                self.node.events.say(&self.pod, "Warning", "Unhealthy", &format!("{kind} probe failed: {words}"));
            }
            probes::Result::Kill { reason, message, grace } => {
                let grace = grace.or(self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds));
                let deadline = Timestamp::now() + SignedDuration::from_secs(grace.unwrap_or(30));
                let kind = if reason == "Killing" { "Normal" } else { "Warning" };
                self.node.events.say(&self.pod, kind, &reason, &message);
                self.stop(&probed.container, deadline);
            }
        }
    }

    fn declared(&self, name: &str) -> Option<k8s_openapi::api::core::v1::Container> {
        let spec = self.pod.spec.as_ref()?;
        let inits = spec.init_containers.iter().flatten();
        inits.chain(&spec.containers).find(|container| container.name == name).cloned()
    }

    /// Marks what ended and will be started again, for the status.
    fn note_restarts(&mut self) {
        let later = Timestamp::now() + SignedDuration::from_hours(24);
        let decision = decide(&self.pod, &self.containers, later);
        let restarting = |name: &str| decision.actions.iter().any(|action| *action == Action::Start(name.to_owned()));
        for (name, container) in &mut self.containers {
            let waited = container.will_wait();
            container.waits_for_restart = restarting(name);
            if container.will_wait() && !waited {
                let pod = format!("{}_{}({})", self.pod.name_any(), self.pod.namespace().unwrap_or_default(), self.uid);
                let words = format!("Back-off restarting failed container {name} in pod {pod}");
                self.node.events.say(&self.pod, "Warning", "BackOff", &words);
            }
        }
    }

    async fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.probing.clear();
        self.stopping.clear();
        let sandbox = match self.sandbox.take() {
            Some(sandbox) => Some(sandbox),
            None => self.node.driver.find(&self.uid).await,
        };
        if let Some(sandbox) = sandbox
            && let Err(error) = sandbox.close(crate::volumes::ephemeral(&self.pod)).await
        {
            tracing::warn!(pod = self.uid, %error, "the Pod's sandbox did not close");
        }
        self.facts.sandboxed = false;
        self.node.release(&self.uid);
    }

    async fn write_status(&mut self, outcome: &Outcome) {
        let status = status::build(&self.pod, &self.containers, outcome, &self.facts, Timestamp::now());
        if self.written.as_ref() == Some(&status) {
            return;
        }
        let patch = json!({ "metadata": { "uid": self.uid }, "status": status });
        let name = self.pod.name_any();
        match self.api().patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(pod) => {
                *self.pod = pod;
                self.written = Some(status);
            }
            // Deleted in between, or replaced by another of that name: the watch tells us.
            Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => {}
            Err(error) => {
                tracing::warn!(pod = self.uid, %error, "the Pod's status could not be written");
                self.retry_later();
            }
        }
    }

    /// Comes back soon although nothing happens.
    fn retry_later(&self) {
        let own = self.own.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = own.send(Input::Nothing).await;
        });
    }

    async fn delete_object(&mut self) {
        let preconditions = Preconditions { uid: Some(self.uid.clone()), resource_version: None };
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match self.api().delete(&self.pod.name_any(), &parameters).await {
            Ok(_) => {}
            Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => {}
            Err(error) => {
                tracing::warn!(pod = self.uid, %error, "the Pod could not be deleted");
                self.retry_later();
            }
        }
        // Finalizers may hold the object; the directory goes when the watch says that it is gone.
    }

    async fn remove_directory(&self) {
        let directory = self.directory.clone();
        let _ = tokio::task::spawn_blocking(move || crate::volumes::files::remove(&directory)).await;
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.node.client.clone(), self.pod.namespace().as_deref().unwrap_or("default"))
    }
}

/// Milliseconds since 1970 as a time.
fn timestamp(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO)
}

/// The wait after so many failed tries: 1 s, doubling, 30 s at most.
fn back_off(tries: u32) -> SignedDuration {
    SignedDuration::from_secs((1_i64 << tries.min(5)).min(30))
}
