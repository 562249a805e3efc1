//! Ends one container: preStop, SIGTERM, patience, SIGKILL.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::task::AbortOnDropHandle;

use super::{Worker, until};
use crate::driver::Sandbox;
use crate::probes::hook;

impl Worker {
    pub(super) fn stop(&mut self, name: &str, deadline: Timestamp) {
        let Some(sandbox) = self.sandbox.clone() else { return };
        let Some(container) = self.containers.get_mut(name) else { return };
        let asked_before = container.stopping.is_some();
        container.stopping = Some(deadline);
        container.ready = false;
        self.probing.remove(name);
        if !asked_before && crate::lifecycle::deletion_deadline(&self.pod).is_some() {
            self.node.events.say(&self.pod, "Normal", "Killing", &format!("Stopping container {name}"));
        }
        let before = self.declared(name).and_then(|declared| declared.lifecycle).and_then(|hooks| hooks.pre_stop);
        let before = before.filter(|_| !asked_before);
        let address = self.facts.address.clone();
        let name = name.to_owned();
        let task = tokio::spawn({
            let name = name.clone();
            async move {
                if let Some(handler) = before {
                    let done = hook(&sandbox, &name, &handler, address.as_deref());
                    let _ = tokio::time::timeout(until(deadline), done).await;
                }
                signal(&sandbox, &name, libc::SIGTERM).await;
                tokio::time::sleep(until(deadline)).await;
                signal(&sandbox, &name, libc::SIGKILL).await;
            }
        });
        self.stopping.insert(name, AbortOnDropHandle::new(task));
    }
}

async fn signal(sandbox: &Arc<dyn Sandbox>, name: &str, signal: i32) {
    if let Err(error) = sandbox.signal(name, signal).await {
        tracing::warn!(container = name, signal, %error, "a container could not be signalled");
    }
}
