use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TaskSpec;

/// Creates Tasks on a schedule, as a `CronJob` creates Jobs.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "CronTask",
    plural = "crontasks",
    shortname = "ct",
    category = "kubeopencode",
    category = "orrery",
    namespaced,
    status = "CronTaskStatus",
    derive = "PartialEq",
    doc = "Creates Tasks on a schedule: one Task for each instant, never two.",
    validation = Rule::new("size(self.metadata.name) <= 52")
        .message("metadata.name must have at most 52 characters, because its Tasks add a time to it"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Active", type_ = "integer", json_path = ".status.active", priority = "1"),
    printcolumn(name = "Last Schedule", type_ = "date", json_path = ".status.lastScheduleTime"),
    printcolumn(name = "Next Schedule", type_ = "date", json_path = ".status.nextScheduleTime", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase")]
pub struct CronTaskSpec {
    /// When, as five fields: minute, hour, day of the month, month, day of the week.
    #[schemars(length(min = 1))]
    pub schedule: String,
    /// Time zone of the schedule, by its IANA name, e.g. Europe/Berlin. Default UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What to do when the Task before is still active: Forbid waits, Replace stops it, Allow runs both.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// When true, no Tasks are created; those that exist go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How many seconds late a Task may still be created; without it, however late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,
    /// How many of its Tasks may exist. When that many do, no more are created until some are deleted.
    #[serde(default = "ten")]
    #[schemars(range(min = 1))]
    pub max_retained_tasks: i32,
    /// The Task to create.
    pub task_template: TaskTemplate,
}

fn ten() -> i32 {
    10
}

/// What to do when a Task is due while another of the same schedule is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// Run both.
    Allow,
    /// Wait for the active one.
    #[default]
    Forbid,
    /// Stop the active one.
    Replace,
}

/// The Task to create at each instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
pub struct TaskTemplate {
    /// Labels and annotations of the Tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TaskTemplateMetadata>,
    /// Spec of the Tasks.
    pub spec: TaskSpec,
}

/// Labels and annotations of the Tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct TaskTemplateMetadata {
    /// Labels to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// What is known about a `CronTask`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronTaskStatus {
    /// The generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of its Tasks that have not ended.
    #[serde(default)]
    pub active: i32,
    /// Its Tasks that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::object_references")]
    pub active_refs: Vec<ObjectReference>,
    /// The last instant that was dealt with. Everything up to it is settled for ever, whatever became of its Task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_schedule_time: Option<Time>,
    /// When one of its Tasks last completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_successful_time: Option<Time>,
    /// When the next Task is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub next_schedule_time: Option<Time>,
    /// Number of Tasks created so far.
    #[serde(default)]
    pub total_executions: i64,
    /// Ready: whether Tasks are being created, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::list")]
    pub conditions: Vec<Condition>,
    /// A Task that is being created for an instant and not yet recorded as created; it is settled before anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_task: Option<String>,
}
