//! What happened to a Pod before this process knew it: read from its shim, or from what the shim left on disk.

use std::path::Path;

use jiff::Timestamp;

use super::{Worker, timestamp};
use crate::driver::{Exit, State as Reported};
use crate::lifecycle::{Container, Ended, State};
use crate::logs;
use crate::probes;

/// Longest message of a container's last words.
const LAST_WORDS: usize = 4096;

impl Worker {
    pub(super) async fn recover(&mut self) {
        let spec = self.pod.spec.clone().unwrap_or_default();
        for declared in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let attempts = logs::attempts(&self.directory, &declared.name);
            let mut container = Container { attempts, crashes: attempts, ..Container::default() };
            if let Some(latest) = attempts.checked_sub(1) {
                container.state = match read_state(&self.directory, &declared.name, latest) {
                    Some(Reported::Running { started }) => State::Running { since: timestamp(started) },
                    Some(Reported::Ended(exit)) => State::Ended(self.describe_end(&declared.name, latest, exit)),
                    None => State::Ended(lost(&self.directory, &declared.name, latest, Timestamp::now())),
                };
                let is_init = spec.init_containers.iter().flatten().any(|init| init.name == declared.name);
                container.ready = is_init && matches!(&container.state, State::Ended(ended) if ended.code == 0);
            }
            if let Some(before) = attempts.checked_sub(2)
                && let Some(Reported::Ended(exit)) = read_state(&self.directory, &declared.name, before)
            {
                container.last = Some(self.describe_end(&declared.name, before, exit));
            }
            self.containers.insert(declared.name.clone(), container);
        }
        if let Some(address) = self.pod.status.as_ref().and_then(|status| status.pod_ip.clone()) {
            self.facts.address = Some(address);
        }
        self.meet_shim().await;
    }

    /// Takes over a shim that is still there; without one, what seemed to run is lost.
    async fn meet_shim(&mut self) {
        let found = match self.node.driver.find(&self.uid).await {
            Some(sandbox) => sandbox.watch().await.ok().map(|watch| (sandbox, watch)),
            None => None,
        };
        let Some((sandbox, watch)) = found else {
            for (name, container) in &mut self.containers {
                if let State::Running { since } = container.state {
                    container.state = State::Ended(lost(&self.directory, name, container.attempts - 1, since));
                }
            }
            return;
        };
        self.facts.sandboxed = true;
        self.sandbox = Some(sandbox.clone());
        self.follow(watch.events);
        for event in watch.now {
            self.note(event);
        }
        if !crate::volumes::token_requests(&self.pod).is_empty() {
            self.renew = Some(Timestamp::now());
        }
        let running: Vec<(String, u32)> = self
            .containers
            .iter()
            .filter(|(_, container)| matches!(container.state, State::Running { .. }))
            .map(|(name, container)| (name.clone(), container.attempts - 1))
            .collect();
        for (name, attempt) in running {
            let Some(mut declared) = self.declared(&name) else { continue };
            // Its postStart hook ran when it was started.
            if let Some(hooks) = &mut declared.lifecycle {
                hooks.post_start = None;
            }
            let tasks = probes::run(&self.pod, &declared, attempt, self.facts.address.as_deref(), &sandbox, &self.own);
            self.probing.insert(name, tasks);
        }
    }

    /// How a container ended, in the words of a Pod's status.
    pub(super) fn describe_end(&self, name: &str, attempt: u32, exit: Exit) -> Ended {
        let declared = self.declared(name).unwrap_or_default();
        let directory = self.directory.join("containers").join(name).join(attempt.to_string());
        let said = std::fs::read(directory.join("termination-log")).unwrap_or_default();
        let mut message = String::from_utf8_lossy(&said[..said.len().min(LAST_WORDS)]).into_owned();
        let from_log = declared.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if message.is_empty() && from_log && exit.code != 0 {
            message = logs::tail(&directory, 80, LAST_WORDS);
        }
        let reason = if exit.refused.is_some() {
            "ContainerCannotRun"
        } else if self.node.was_out_of_memory(&self.uid, name) {
            "OOMKilled"
        } else if exit.code == 0 {
            "Completed"
        } else {
            "Error"
        };
        let message = exit.refused.or(Some(message)).filter(|message| !message.is_empty());
        Ended {
            code: exit.code,
            signal: exit.signal,
            reason: reason.to_owned(),
            message,
            started: timestamp(exit.started),
            finished: timestamp(exit.finished),
        }
    }
}

/// What the shim recorded about a start.
pub(super) fn read_state(directory: &Path, name: &str, attempt: u32) -> Option<Reported> {
    let path = directory.join("containers").join(name).join(attempt.to_string()).join("state.json");
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// A container that ran and whose end nobody saw. The end is written down, so that it stays the same from now on.
pub(super) fn lost(directory: &Path, name: &str, attempt: u32, started: Timestamp) -> Ended {
    let finished = Timestamp::now();
    let message = "the container ended together with its shim; nobody saw its exit code";
    let exit = Exit {
        code: 137,
        signal: Some(libc::SIGKILL),
        refused: None,
        started: started.as_millisecond(),
        finished: finished.as_millisecond(),
    };
    let home = directory.join("containers").join(name).join(attempt.to_string());
    if let Ok(text) = serde_json::to_vec(&Reported::Ended(exit)) {
        let _ = std::fs::write(home.join("state.json"), text);
    }
    let _ = std::fs::write(home.join("termination-log"), message);
    Ended {
        code: 137,
        signal: Some(libc::SIGKILL),
        reason: "ContainerStatusUnknown".to_owned(),
        message: Some(message.to_owned()),
        started,
        finished,
    }
}
