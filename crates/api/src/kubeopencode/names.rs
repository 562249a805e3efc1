//! Words that other programs look for: labels, annotations, finalizers, and the names of what a resource owns.

/// The API group of this dialect.
pub const GROUP: &str = "kubeopencode.io";
/// The only version of the group.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every kind here.
pub const API_VERSION: &str = "kubeopencode.io/v1alpha1";

/// On everything that belongs to an Agent, and on its Tasks' Pods: the Agent's name.
pub const AGENT_LABEL: &str = "kubeopencode.io/agent";
/// On an Agent or a Task's Pod: the template it follows.
pub const TEMPLATE_LABEL: &str = "kubeopencode.io/agent-template";
/// On a Task's Pod and `ConfigMap`: the Task's name.
pub const TASK_LABEL: &str = "kubeopencode.io/task";
/// On a Task that a schedule created: the `CronTask`'s name.
pub const CRON_TASK_LABEL: &str = "kubeopencode.io/crontask";

/// On a Task: `true` asks for it to be stopped.
pub const STOP_ANNOTATION: &str = "kubeopencode.io/stop";
/// On a `CronTask`: `true` asks for one run now; it is removed when the run is recorded.
pub const TRIGGER_ANNOTATION: &str = "kubeopencode.io/trigger";
/// On an Agent: when a person was last connected (RFC 3339); keeps an idle Agent awake.
pub const LAST_CONNECTION_ANNOTATION: &str = "kubeopencode.io/last-connection-active";
/// On the server's Pod template: a digest of the context files, so that a change rolls the Deployment.
pub const CONTEXT_HASH_ANNOTATION: &str = "kubeopencode.io/context-hash";
/// On a Task of a `CronTask`: the instant it was due at, as a Unix time.
pub const SCHEDULED_ANNOTATION: &str = "kubeopencode.io/scheduled-at";

/// Keeps a Task's Pod, and a `CronTask`'s Task, until the controller has recorded what became of it: without it,
/// "never created" and "already gone" look the same.
pub const TRACKING_FINALIZER: &str = "kubeopencode.io/tracking";

/// Where the server listens unless the Agent says otherwise.
pub const DEFAULT_PORT: u16 = 4096;
/// The working directory unless an Agent or its template says otherwise.
pub const DEFAULT_WORKSPACE: &str = "/workspace";
/// The one name that a `KubeOpenCodeConfig` can have.
pub const CONFIG_NAME: &str = "cluster";

/// The Deployment of an Agent's server.
pub fn deployment(agent: &str) -> String {
    format!("{agent}-server")
}

/// The Agent's context files.
pub fn server_config_map(agent: &str) -> String {
    format!("{agent}-server-context")
}

/// The claim that keeps the Agent's sessions.
pub fn sessions_claim(agent: &str) -> String {
    format!("{agent}-server-sessions")
}

/// The claim that keeps the Agent's working directory.
pub fn workspace_claim(agent: &str) -> String {
    format!("{agent}-server-workspace")
}

/// The Pod of a Task.
pub fn task_pod(task: &str) -> String {
    format!("{task}-pod")
}

/// The context files of a Task.
pub fn task_config_map(task: &str) -> String {
    format!("{task}-context")
}

/// The Task of a `CronTask` for the instant `scheduled` (Unix seconds): the same instant has the same name for ever.
pub fn scheduled_task(cron_task: &str, scheduled: i64) -> String {
    format!("{cron_task}-{scheduled}")
}

/// The title of a Task's session on the agent, which finds it again among others.
pub fn session_title(namespace: &str, task: &str, uid: &str) -> String {
    format!("kubeopencode/{namespace}/{task}/{}", unlike_others(uid))
}

/// What a Task is called on an Agent's server, and the directory of its own there.
pub fn task_on_server(task: &str, uid: &str) -> String {
    format!("{task}-{}", unlike_others(uid))
}

/// The end of a uid: its beginning may be a time that others share.
fn unlike_others(uid: &str) -> &str {
    &uid[uid.len().saturating_sub(8)..]
}

/// Where below the workspace of a server the Tasks' own directories are.
pub const TASK_DIRECTORIES: &str = ".kubeopencode/tasks";

/// The Secret with the token by which a Task may bring files to an Agent's server.
pub fn context_secret(agent: &str) -> String {
    format!("{agent}-server-contexts")
}
/// The key of that Secret.
pub const CONTEXT_TOKEN_KEY: &str = "token";
/// Name of the port at which an Agent's server takes files.
pub const CONTEXT_PORT_NAME: &str = "contexts";
