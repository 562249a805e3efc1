//! Starts one container, or says why it cannot.

use jiff::Timestamp;

use super::prepare::words_of;
use super::{Worker, back_off};
use crate::driver::{ContainerSpec, Error, Root, SandboxSpec};
use crate::environment;
use crate::lifecycle::{Container, Obstacle, State};
use crate::{plan, probes};

impl Worker {
    pub(super) async fn start(&mut self, name: &str) {
        let Some(declared) = self.declared(name) else { return };
        let attempt = self.containers.get(name).map_or(0, |container| container.attempts);
        let spec = match self.specify(&declared, attempt).await {
            Ok(spec) => spec,
            Err((reason, message)) => return self.hinder(name, reason, &message),
        };
        if let Root::Image(id) = &spec.root
            && !self.sandbox_shows(id)
        {
            return self.reopen(name).await;
        }
        let Some(sandbox) = self.sandbox.clone() else { return };
        let cgroups = self.node.limit(&self.uid, &declared, &mut self.facts);
        let outcome = sandbox.start(&spec, cgroups).await;
        let container = self.containers.entry(name.to_owned()).or_default();
        container.obstacle = None;
        if let State::Ended(ended) = &container.state {
            container.last = Some(ended.clone());
        }
        match outcome {
            Ok(()) => {
                container.attempts = attempt + 1;
                container.tries = 0;
                // Said at once when there is nothing to wait for: one write of the status, not two.
                let waits = declared.startup_probe.is_some()
                    || declared.lifecycle.as_ref().is_some_and(|hooks| hooks.post_start.is_some());
                container.started = !waits;
                container.ready = !waits && declared.readiness_probe.is_none();
                container.stopping = None;
                container.state = State::Running { since: Timestamp::now() };
                let say = |reason: &str, words: &str| self.node.events.say(&self.pod, "Normal", reason, words);
                let image = declared.image.as_deref().unwrap_or_default();
                say("Pulled", &format!("Container image \"{image}\" already present on machine"));
                say("Created", &format!("Created container: {name}"));
                say("Started", &format!("Started container {name}"));
                let tasks =
                    probes::run(&self.pod, &declared, attempt, self.facts.address.as_deref(), &sandbox, &self.own);
                self.probing.insert(name.to_owned(), tasks);
            }
            Err(Error::Refused(words)) => self.note_refusal(name, attempt, &words),
            Err(error) => self.hinder(name, "CreateContainerError", &words_of(&error)),
        }
    }

    /// Whether the image was there when the sandbox was made. Later nothing more can be shown in it.
    fn sandbox_shows(&self, image: &str) -> bool {
        let text = std::fs::read(self.directory.join("sandbox.json")).unwrap_or_default();
        serde_json::from_slice::<SandboxSpec>(&text).is_ok_and(|spec| spec.images.contains_key(image))
    }

    /// Makes another sandbox for an image that came later, as long as nothing runs in this one.
    async fn reopen(&mut self, name: &str) {
        let is_running = |container: &Container| matches!(container.state, State::Running { .. });
        if self.containers.values().any(is_running) {
            let words =
                "the image came when other containers of the Pod already ran: delete the Pod, and another has it";
            return self.hinder(name, "ErrImagePull", words);
        }
        self.watcher = None;
        if let Some(sandbox) = self.sandbox.take()
            && let Err(error) = sandbox.close(Vec::new()).await
        {
            tracing::warn!(pod = self.uid, %error, "the Pod's sandbox did not close");
        }
        self.facts.sandboxed = false;
        self.retry = Some(Timestamp::now());
    }

    /// A start that the shim refused is on disk when it got so far that it counts; otherwise it never happened.
    fn note_refusal(&mut self, name: &str, attempt: u32, words: &str) {
        let Some(recorded) = super::recover::read_state(&self.directory, name, attempt) else {
            return self.hinder(name, "CreateContainerError", words);
        };
        let container = self.containers.entry(name.to_owned()).or_default();
        container.attempts = attempt + 1;
        container.state = State::Running { since: Timestamp::now() };
        // Still being cleared away: the shim tells when it is done.
        if let crate::driver::State::Ended(exit) = recorded {
            let ended = self.describe_end(name, attempt, exit);
            self.end(name, ended);
        }
    }

    /// Notes why a container does not start, says it once, and comes back.
    fn hinder(&mut self, name: &str, reason: &str, message: &str) {
        let container = self.containers.entry(name.to_owned()).or_default();
        let news = container.obstacle.as_ref().is_none_or(|obstacle| obstacle.message != message);
        container.tries += 1;
        let retry = Timestamp::now() + back_off(container.tries);
        container.obstacle = Some(Obstacle { reason: reason.to_owned(), message: message.to_owned(), retry });
        if news {
            let image = self.declared(name).and_then(|declared| declared.image).unwrap_or_default();
            let words = match reason {
                "ErrImagePull" => format!("Failed to pull image \"{image}\": {message}"),
                _ => format!("Error: {reason}: {message}"),
            };
            self.node.events.say(&self.pod, "Warning", "Failed", &words);
        }
    }

    async fn specify(
        &self,
        declared: &k8s_openapi::api::core::v1::Container,
        attempt: u32,
    ) -> Result<ContainerSpec, (&'static str, String)> {
        let image = self.node.images.find(declared.image.as_deref().unwrap_or_default());
        let image = image.map_err(|words| ("ErrImagePull", words))?;
        let wrong = |words| ("CreateContainerConfigError", words);
        let sources = self.fetch(environment::needs(declared)).await.map_err(wrong)?;
        let services = self.node.service_variables();
        let variables = environment::resolve(&self.pod, declared, &sources, &self.place(), &services).map_err(wrong)?;
        plan::container(&self.pod, declared, attempt, &image, variables, &self.node.hidden).map_err(wrong)
    }
}
