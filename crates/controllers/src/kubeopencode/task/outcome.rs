//! What a Pod's status means for the Task.

use api::kubeopencode::account::Report;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Where a Task's Pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Starting or running.
    Alive,
    /// A container cannot start: reason and message of the kubelet.
    Stuck {
        /// Such as `ImagePullBackOff`.
        reason: String,
        /// What the kubelet says.
        message: String,
    },
    /// Ended with success.
    Succeeded,
    /// Ended without.
    Failed {
        /// Such as `Error`, `OOMKilled`, `Evicted`.
        reason: String,
        /// Which container and how.
        message: String,
    },
    /// Being deleted by someone, and its time is up or its containers have ended.
    Lost,
    /// Being deleted by someone; its containers may still run until this time.
    Leaving(jiff::Timestamp),
}

/// Kubelet words for a container that will not start by itself.
const STUCK: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// Reads a Pod.
pub fn pod_state(pod: &Pod, now: jiff::Timestamp) -> PodState {
    let status = pod.status.clone().unwrap_or_default();
    let ended = match status.phase.as_deref() {
        Some("Succeeded") => Some(PodState::Succeeded),
        Some("Failed") => Some(failure(pod)),
        _ => None,
    };
    if let Some(deleted) = &pod.metadata.deletion_timestamp {
        return match ended {
            Some(_) => PodState::Lost,
            None if deleted.0 <= now => PodState::Lost,
            None => PodState::Leaving(deleted.0),
        };
    }
    if let Some(ended) = ended {
        return ended;
    }
    let waiting = containers(pod).find_map(|container| {
        let waiting = container.state?.waiting?;
        let reason = waiting.reason.filter(|reason| STUCK.contains(&reason.as_str()))?;
        let message = waiting.message.unwrap_or_default();
        Some(PodState::Stuck { reason, message: format!("container {}: {message}", container.name) })
    });
    waiting.unwrap_or(PodState::Alive)
}

fn containers(pod: &Pod) -> impl Iterator<Item = ContainerStatus> {
    let status = pod.status.clone().unwrap_or_default();
    status.init_container_statuses.into_iter().flatten().chain(status.container_statuses.into_iter().flatten())
}

/// What the agent's container left as its last words.
pub(super) fn report(pod: &Pod) -> Option<Report> {
    let agent = containers(pod).find(|container| container.name == "agent")?;
    Report::read(&agent.state?.terminated?.message?)
}

fn failure(pod: &Pod) -> PodState {
    let status = pod.status.clone().unwrap_or_default();
    let broken = containers(pod).find_map(|container| {
        let ended = container.state?.terminated?;
        (ended.exit_code != 0).then(|| {
            let report = ended.message.as_deref().and_then(Report::read);
            let (word, told) = match report {
                Some(report) => (report.reason, report.error),
                None => (None, ended.message),
            };
            if let (Some(word), Some(told)) = (word.clone(), told.clone()) {
                return (word, told);
            }
            let reason = word.or(ended.reason).unwrap_or_else(|| "Error".into());
            let note = told.map(|message| format!(": {}", message.trim())).unwrap_or_default();
            (reason, format!("container {} ended with exit code {}{note}", container.name, ended.exit_code))
        })
    });
    // An evicted Pod says why in its own status; its containers only say that they were killed.
    let (reason, message) = match (status.reason, broken) {
        (Some(reason), broken) => {
            let message = status.message.or(broken.map(|(_, message)| message)).unwrap_or_default();
            (reason, message)
        }
        (None, Some(broken)) => broken,
        (None, None) => ("Error".into(), "the Pod failed and no container says why".into()),
    };
    PodState::Failed { reason, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(pod: serde_json::Value) -> PodState {
        let pod: Pod = serde_json::from_value(pod).expect("a Pod");
        pod_state(&pod, "2026-01-01T00:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn a_failed_pod_says_which_container() {
        let failed = state(json!({ "status": { "phase": "Failed", "initContainerStatuses": [{ "name": "git-init-0",
            "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 128, "reason": "Error" } } }] } }));
        let expected = "container git-init-0 ended with exit code 128".to_owned();
        assert_eq!(failed, PodState::Failed { reason: "Error".into(), message: expected });
    }

    #[test]
    fn an_evicted_pod_says_so() {
        let failed = state(json!({ "status": { "phase": "Failed", "reason": "Evicted", "message": "low on memory" } }));
        assert_eq!(failed, PodState::Failed { reason: "Evicted".into(), message: "low on memory".into() });
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_seen_at_once() {
        let stuck = state(json!({ "status": { "phase": "Pending", "containerStatuses": [{ "name": "agent",
            "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": "ErrImagePull", "message": "not found" } } }] } }));
        let expected = "container agent: not found".to_owned();
        assert_eq!(stuck, PodState::Stuck { reason: "ErrImagePull".into(), message: expected });
    }

    #[test]
    fn a_deleted_pod_is_lost_once_its_grace_is_over() {
        let deleted = |at: &str| json!({ "metadata": { "deletionTimestamp": at }, "status": { "phase": "Running" } });
        assert_eq!(state(deleted("2026-01-01T00:00:00Z")), PodState::Lost);
        assert!(matches!(state(deleted("2026-01-01T00:00:30Z")), PodState::Leaving(_)));
    }
}
