//! Logs that outlive their Pod: kept as files before the Pod is let go.

use std::path::PathBuf;

use api::kubeopencode::Task;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use kube::{Client, ResourceExt};

/// More of one container's log is not kept; its end says most.
const LARGEST: i64 = 16 << 20;

/// A directory of logs: `<namespace>/<task>-<uid>/<container>.log`. Every line begins with the instant it was written,
/// so that whoever was reading when the Pod went can go on at the same line.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Its root.
    pub directory: PathBuf,
}

impl Archive {
    /// Where the logs of a Task are.
    pub fn of(&self, namespace: &str, task: &str, uid: &str) -> PathBuf {
        self.directory.join(namespace).join(format!("{task}-{uid}"))
    }

    /// Keeps the logs of a Task's Pod. A log that cannot be had is said in our own log; the Task's end does not wait.
    pub async fn keep(&self, client: &Client, task: &Task, pod: &Pod) {
        let namespace = task.namespace().unwrap_or_default();
        let directory = self.of(&namespace, &task.name_any(), &task.uid().unwrap_or_default());
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let spec = pod.spec.clone().unwrap_or_default();
        let containers = spec.init_containers.into_iter().flatten().chain(spec.containers);
        for container in containers {
            let parameters = LogParams {
                container: Some(container.name.clone()),
                limit_bytes: Some(LARGEST),
                timestamps: true,
                ..LogParams::default()
            };
            let kept = match api.logs(&pod.name_any(), &parameters).await {
                Ok(text) if text.is_empty() => continue,
                Ok(text) => write(&directory, &container.name, text).await,
                Err(error) => Err(std::io::Error::other(error)),
            };
            if let Err(error) = kept {
                let pod = pod.name_any();
                tracing::debug!(%error, pod, container = container.name, "a log could not be kept");
            }
        }
    }
}

/// Written beside and renamed, so that a reader never sees half of it.
async fn write(directory: &std::path::Path, container: &str, text: String) -> std::io::Result<()> {
    tokio::fs::create_dir_all(directory).await?;
    let target = directory.join(format!("{container}.log"));
    let beside = directory.join(format!(".{container}.log.new"));
    tokio::fs::write(&beside, text).await?;
    tokio::fs::rename(&beside, &target).await
}
