//! A Task's log as an event stream that survives reconnects.
//!
//! Every line's id is the instant it was written and its place among the lines of that instant, so a client that comes
//! back with `Last-Event-ID` gets the next line: none twice, none lost.

use std::convert::Infallible;
use std::path::PathBuf;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::io::AsyncBufReadExt;
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, LogParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::access::Resource;
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::kinds::Kind;
use crate::resources::ObjectPath;

const DEFAULT_CONTAINER: &str = "agent";
const LOGS: Resource<'static> = Resource { group: "", plural: "pods", subresource: "log" };

/// Options of a log stream.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LogQuery {
    /// Go on until the Task ends; `true` unless told.
    follow: Option<bool>,
    /// Which container; the agent's unless told.
    container: Option<String>,
    /// Only the last lines.
    tail_lines: Option<i64>,
}

/// `GET …/tasks/{name}/logs`.
pub async fn follow(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): ObjectPath,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = std::result::Result<Event, Infallible>>>> {
    query.check()?;
    let position = headers.get("last-event-id").and_then(|id| Position::parse(id.to_str().ok()?)).unwrap_or_default();
    let tasks = Kind::by_plural("tasks").expect("tasks are in the table").api(&caller.client, Some(&namespace));
    // A caller who may not see the Task learns it here, as a status and not as an event.
    let task = tasks.get(&name).await?;
    let (sender, receiver) = mpsc::channel(256);
    let keep_alive = KeepAlive::new().interval(app.streams.keep_alive);
    let reader = Reader { app, caller, tasks, namespace, name, query, sender };
    tokio::spawn(reader.run(task, position));
    Ok(Sse::new(ReceiverStream::new(receiver).map(Ok)).keep_alive(keep_alive))
}

impl LogQuery {
    fn check(&self) -> Result<()> {
        if self.tail_lines.is_some_and(|lines| lines < 0) {
            return Err(Error::bad_request("tailLines: must not be negative"));
        }
        // It becomes part of a path where logs are kept.
        let word =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if self.container.as_deref().is_some_and(|name| name.is_empty() || !word(name)) {
            return Err(Error::bad_request("container: lower-case letters, digits and - make a container's name"));
        }
        Ok(())
    }

    fn container(&self) -> &str {
        self.container.as_deref().unwrap_or(DEFAULT_CONTAINER)
    }
}

struct Reader {
    app: App,
    caller: Caller,
    tasks: Api<DynamicObject>,
    namespace: String,
    name: String,
    query: LogQuery,
    sender: mpsc::Sender<Event>,
}

impl Reader {
    async fn run(self, task: DynamicObject, position: Position) {
        let closed = self.sender.clone();
        tokio::select! {
            result = self.read(task, position) => if let Err(error) = result {
                let message = error.to_string();
                let _ = closed.send(event(&json!({"type": "error", "message": message}))).await;
            },
            () = closed.closed() => {}
        }
    }

    async fn read(&self, mut task: DynamicObject, mut position: Position) -> kube::Result<()> {
        let follow = self.query.follow.unwrap_or(true);
        self.send(&json!({"type": "status", "phase": phase(&task), "podPhase": self.pod_phase(&task).await})).await;
        if pod_name(&task).is_none() && !finished(&task) {
            self.send(&json!({"type": "info", "message": waiting(&task)})).await;
            if !follow {
                return Ok(());
            }
            task = self.wait_for_task(|task| pod_name(task).is_some() || finished(task)).await?;
        }
        if let Some(pod) = pod_name(&task)
            && !self.copy_log(&pod, follow, &mut position).await?
        {
            self.copy_kept(&task, &pod, &mut position).await?;
        }
        if follow && !finished(&task) {
            task = self.wait_for_task(finished).await?;
        }
        self.send(&json!({"type": "complete", "phase": phase(&task)})).await;
        Ok(())
    }

    /// Sends lines until the container has ended and all of them are sent; false when the Pod is gone.
    async fn copy_log(&self, pod: &str, follow: bool, position: &mut Position) -> kube::Result<bool> {
        let container = self.query.container().to_owned();
        let pods: Api<Pod> = Api::namespaced(self.caller.client.clone(), &self.namespace);
        if follow && !self.wait_for_container(&pods, pod, &container).await? {
            return Ok(false);
        }
        loop {
            let parameters = LogParams {
                container: Some(container.clone()),
                follow,
                timestamps: true,
                since_time: position.instant.parse().ok(),
                tail_lines: self.query.tail_lines.filter(|_| position.instant.is_empty()),
                ..LogParams::default()
            };
            let stream = match pods.log_stream(pod, &parameters).await {
                Ok(stream) => stream,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
                Err(error) => return Err(error),
            };
            self.copy_lines(stream, position).await?;
            if !follow || ended(&pods, pod, &container).await? {
                return Ok(true);
            }
        }
    }

    /// Sends what was kept of the log when the Pod went. The lines have the same instants, so a position still holds.
    async fn copy_kept(&self, task: &DynamicObject, pod: &str, position: &mut Position) -> kube::Result<()> {
        // The file is ours, so nobody else asks whether this caller may read a Pod's log.
        match self.caller.may("get", LOGS, &self.namespace).await {
            Ok(true) => {}
            Ok(false) => {
                let message = self.caller.forbidden("get pods/log here").to_string();
                self.send(&json!({"type": "error", "message": message})).await;
                return Ok(());
            }
            Err(error) => {
                self.send(&json!({"type": "error", "message": error.to_string()})).await;
                return Ok(());
            }
        }
        let Some(file) = self.kept(task) else { return self.gone(pod).await };
        match tokio::fs::read(&file).await {
            Ok(bytes) => {
                let text = tail(&bytes, self.query.tail_lines.filter(|_| position.instant.is_empty()));
                self.copy_lines(futures::io::Cursor::new(text), position).await
            }
            Err(_) => self.gone(pod).await,
        }
    }

    fn kept(&self, task: &DynamicObject) -> Option<PathBuf> {
        let folder = self.app.logs.as_ref()?.of(&self.namespace, &self.name, &task.uid()?);
        Some(folder.join(format!("{}.log", self.query.container())))
    }

    async fn copy_lines(
        &self,
        stream: impl futures::AsyncBufRead + Unpin,
        position: &mut Position,
    ) -> kube::Result<()> {
        let mut resume = Resume::new(position.clone());
        let mut lines = stream.lines();
        while let Some(line) = lines.try_next().await.map_err(kube::Error::ReadEvents)? {
            let (instant, content) = line.split_once(' ').unwrap_or((line.as_str(), ""));
            if let Some(next) = resume.advance(instant) {
                *position = next;
                let data = json!({"type": "log", "content": format!("{content}\n")});
                let _ = self.sender.send(event(&data).id(position.to_string())).await;
            }
        }
        Ok(())
    }

    /// Waits until the container runs or has ended; false when the Pod is gone.
    async fn wait_for_container(&self, pods: &Api<Pod>, pod: &str, container: &str) -> kube::Result<bool> {
        let name = container.to_owned();
        let started = move |pod: Option<&Pod>| pod.is_none_or(|pod| has_started(pod, &name));
        match await_condition(pods.clone(), pod, started).await {
            Ok(pod) => Ok(pod.is_some()),
            Err(error) => Err(kube::Error::Service(Box::new(error))),
        }
    }

    async fn wait_for_task(&self, done: impl Fn(&DynamicObject) -> bool) -> kube::Result<DynamicObject> {
        let condition = |task: Option<&DynamicObject>| task.is_none_or(&done);
        let task = await_condition(self.tasks.clone(), &self.name, condition)
            .await
            .map_err(|error| kube::Error::Service(Box::new(error)))?;
        match task {
            Some(task) => Ok(task),
            None => self.tasks.get(&self.name).await,
        }
    }

    async fn pod_phase(&self, task: &DynamicObject) -> Option<String> {
        let pods: Api<Pod> = Api::namespaced(self.caller.client.clone(), &self.namespace);
        pods.get_opt(&pod_name(task)?).await.ok()??.status?.phase
    }

    async fn gone(&self, pod: &str) -> kube::Result<()> {
        self.send(&json!({"type": "info", "message": format!("Pod {pod} is gone, and its log was not kept")})).await;
        Ok(())
    }

    async fn send(&self, data: &Value) {
        // Nobody listening ends `run`.
        let _ = self.sender.send(event(data)).await;
    }
}

/// The last lines of a text.
fn tail(text: &[u8], lines: Option<i64>) -> &[u8] {
    let Some(lines) = lines.and_then(|lines| usize::try_from(lines).ok()) else { return text };
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut starts = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1);
    match lines {
        0 => &[],
        _ => starts.nth(lines - 1).map_or(text, |start| &text[start..]),
    }
}

fn event(data: &Value) -> Event {
    Event::default().data(data.to_string())
}

fn phase(task: &DynamicObject) -> &str {
    task.data["status"]["phase"].as_str().unwrap_or("Pending")
}

fn finished(task: &DynamicObject) -> bool {
    matches!(phase(task), "Completed" | "Failed")
}

fn pod_name(task: &DynamicObject) -> Option<String> {
    task.data["status"]["podName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Why there is no Pod yet, in the words of the Task's own conditions.
fn waiting(task: &DynamicObject) -> String {
    let conditions = task.data["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let queued = conditions.iter().find(|condition| condition["type"] == "Queued" && condition["status"] == "True");
    queued.and_then(|condition| condition["message"].as_str()).unwrap_or("The Task has no Pod yet").to_owned()
}

fn container_statuses<'a>(
    pod: &'a Pod,
    container: &'a str,
) -> impl Iterator<Item = &'a k8s_openapi::api::core::v1::ContainerStatus> {
    let status = pod.status.as_ref();
    let all = status
        .into_iter()
        .flat_map(|status| [&status.container_statuses, &status.init_container_statuses])
        .flatten()
        .flatten();
    all.filter(move |status| status.name == container)
}

fn has_started(pod: &Pod, container: &str) -> bool {
    let over = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"));
    let state = |status: &k8s_openapi::api::core::v1::ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    over || container_statuses(pod, container).any(state)
}

async fn ended(pods: &Api<Pod>, name: &str, container: &str) -> kube::Result<bool> {
    let Some(pod) = pods.get_opt(name).await? else { return Ok(true) };
    let running = container_statuses(&pod, container)
        .any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    Ok(!running)
}

/// A line's place: the instant it was written and how many lines of that instant came before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Position {
    instant: String,
    index: usize,
}

impl Position {
    fn parse(id: &str) -> Option<Self> {
        let (instant, index) = id.split_once('/')?;
        Some(Self { instant: instant.to_owned(), index: index.parse().ok()? })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.instant, self.index)
    }
}

/// Passes over what was sent before. The log is asked for from a whole second, so lines up to and including the last
/// position come again.
struct Resume {
    last: Position,
    current: Option<Position>,
}

impl Resume {
    fn new(last: Position) -> Self {
        Self { last, current: None }
    }

    /// The position of the next line, unless it was sent already.
    fn advance(&mut self, instant: &str) -> Option<Position> {
        let index =
            self.current.as_ref().filter(|current| current.instant == instant).map_or(0, |current| current.index + 1);
        let position = Position { instant: instant.to_owned(), index };
        self.current = Some(position.clone());
        let known =
            (order(instant), index) <= (order(&self.last.instant), self.last.index) && !self.last.instant.is_empty();
        (!known).then_some(position)
    }
}

/// Instants compare as times: fractions of a second have any number of digits.
fn order(instant: &str) -> (String, String) {
    let (seconds, fraction) =
        instant.trim_end_matches('Z').split_once('.').unwrap_or((instant.trim_end_matches('Z'), ""));
    (seconds.to_owned(), fraction.trim_end_matches('0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 5] = [
        "2026-01-01T00:00:01.1Z",
        "2026-01-01T00:00:01.1Z",
        "2026-01-01T00:00:01.25Z",
        "2026-01-01T00:00:01.25Z",
        "2026-01-01T00:00:02Z",
    ];

    fn sent(after: Position) -> Vec<Position> {
        let mut resume = Resume::new(after);
        LINES.iter().filter_map(|instant| resume.advance(instant)).collect()
    }

    #[test]
    fn a_reconnect_after_any_line_gets_exactly_the_rest() {
        let all = sent(Position::default());
        assert_eq!(all.len(), LINES.len());
        for (index, position) in all.iter().enumerate() {
            let resumed = Position::parse(&position.to_string()).expect("an id parses");
            assert_eq!(sent(resumed), all[index + 1..], "after {position}");
        }
    }

    #[test]
    fn a_tail_is_the_last_lines() {
        let text = b"a\nb\nc\n";
        for (lines, expected) in
            [(None, "a\nb\nc\n"), (Some(0), ""), (Some(1), "c\n"), (Some(2), "b\nc\n"), (Some(9), "a\nb\nc\n")]
        {
            assert_eq!(tail(text, lines), expected.as_bytes(), "{lines:?}");
        }
    }

    #[test]
    fn a_container_cannot_name_another_file() {
        for name in ["../secrets", "a/b", "", ".", "A"] {
            assert!(LogQuery { container: Some(name.to_owned()), ..LogQuery::default() }.check().is_err(), "{name}");
        }
        assert!(LogQuery { container: Some("git-init-0".to_owned()), ..LogQuery::default() }.check().is_ok());
    }
}
