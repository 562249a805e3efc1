use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// How many Tasks may start within a sliding window of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// The most Tasks that may start within the window.
    #[schemars(range(min = 1))]
    pub max_task_starts: i32,
    /// Length of the sliding window in seconds, from a minute to a day.
    #[schemars(range(min = 60, max = 86400))]
    pub window_seconds: i32,
}

/// One start of a Task, kept while it is inside the quota's window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStart {
    /// Name of the Task.
    pub task_name: String,
    /// Namespace of the Task.
    pub task_namespace: String,
    /// UID of the Task, so that a start is counted once however often it is recorded.
    #[serde(default, rename = "taskUID", skip_serializing_if = "Option::is_none")]
    pub task_uid: Option<String>,
    /// When the Task was admitted.
    #[schemars(schema_with = "crate::schema::time")]
    pub start_time: Time,
}

/// A Task that holds one of the slots of `maxConcurrentTasks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveTask {
    /// Name of the Task.
    pub name: String,
    /// UID of the Task.
    pub uid: String,
}
