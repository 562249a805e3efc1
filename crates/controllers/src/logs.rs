//! Logs that outlive their Pod: kept as files before the Pod is let go.

use std::collections::VecDeque;
use std::path::PathBuf;

use api::kubeopencode::Task;
use futures::AsyncBufReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use kube::{Client, ResourceExt};

/// More of one container's log is not kept; its end says most.
const LARGEST: usize = 16 << 20;

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
        // One without a status has not started, and so has no log.
        let status = pod.status.clone().unwrap_or_default();
        let init = status.init_container_statuses.into_iter().flatten();
        for container in init.chain(status.container_statuses.into_iter().flatten()) {
            let parameters =
                LogParams { container: Some(container.name.clone()), timestamps: true, ..LogParams::default() };
            let kept = match read(&api, &pod.name_any(), &parameters).await {
                Ok(text) if text.is_empty() => continue,
                Ok(text) => write(&directory, &container.name, text).await,
                Err(error) => Err(error),
            };
            if let Err(error) = kept {
                let pod = pod.name_any();
                tracing::debug!(%error, pod, container = container.name, "a log could not be kept");
            }
        }
    }
}

/// The end of a log. `limitBytes` of the Kubernetes API would keep its beginning.
async fn read(pods: &Api<Pod>, pod: &str, parameters: &LogParams) -> std::io::Result<Vec<u8>> {
    let mut log = pods.log_stream(pod, parameters).await.map_err(std::io::Error::other)?;
    let mut end = End::new(LARGEST);
    let mut line = Vec::new();
    while log.read_until(b'\n', &mut line).await? > 0 {
        end.push(std::mem::take(&mut line));
    }
    Ok(end.into_bytes())
}

/// The last lines of a log that fit.
struct End {
    largest: usize,
    lines: VecDeque<Vec<u8>>,
    size: usize,
    dropped: usize,
    /// The instant of the last line that was dropped.
    until: Vec<u8>,
}

impl End {
    fn new(largest: usize) -> Self {
        Self { largest, lines: VecDeque::new(), size: 0, dropped: 0, until: Vec::new() }
    }

    fn push(&mut self, line: Vec<u8>) {
        self.size += line.len();
        self.lines.push_back(line);
        while self.size > self.largest {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let Some(line) = self.lines.pop_front() else { return };
        self.size -= line.len();
        self.dropped += line.len();
        self.until = instant(&line).to_vec();
    }

    /// Says first what is missing. A reader's place is an instant and a count of lines within it, so an instant is
    /// dropped as a whole and the note takes its place.
    fn into_bytes(mut self) -> Vec<u8> {
        if self.dropped == 0 {
            return self.lines.into_iter().flatten().collect();
        }
        while self.lines.front().is_some_and(|line| instant(line) == self.until) {
            self.drop_first();
        }
        let note = format!(" [the first {} bytes of this log were not kept]\n", self.dropped);
        let mut text = self.until;
        text.extend_from_slice(note.as_bytes());
        text.extend(self.lines.into_iter().flatten());
        text
    }
}

fn instant(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b' ').next().unwrap_or_default()
}

/// Written beside and renamed, so that a reader never sees half of it.
async fn write(directory: &std::path::Path, container: &str, text: Vec<u8>) -> std::io::Result<()> {
    tokio::fs::create_dir_all(directory).await?;
    let target = directory.join(format!("{container}.log"));
    let beside = directory.join(format!(".{container}.log.new"));
    tokio::fs::write(&beside, text).await?;
    tokio::fs::rename(&beside, &target).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(largest: usize, lines: &[&str]) -> String {
        let mut end = End::new(largest);
        for line in lines {
            end.push(format!("{line}\n").into_bytes());
        }
        String::from_utf8(end.into_bytes()).expect("text")
    }

    #[test]
    fn a_log_that_fits_is_kept_as_it_is() {
        assert_eq!(kept(100, &["1Z a", "1Z b", "2Z c"]), "1Z a\n1Z b\n2Z c\n");
        assert_eq!(kept(100, &[]), "");
    }

    #[test]
    fn of_a_log_that_is_too_large_the_end_is_kept_and_instants_are_whole() {
        // Room for three lines; the third shares its instant with one that had to go.
        let text = kept(15, &["1Z a", "2Z b", "2Z c", "3Z d", "3Z e"]);
        assert_eq!(text, "2Z [the first 15 bytes of this log were not kept]\n3Z d\n3Z e\n");
        assert!(kept(3, &["1Z a", "2Z b"]).ends_with("not kept]\n"));
    }
}
