//! Verbs that are more than a change of a spec: stop, suspend, resume, trigger, and the runs of a schedule.
//! Each is one conditional patch of the object; the controllers do the work.

use api::kubeopencode::names::{CRON_TASK_LABEL, STOP_ANNOTATION, TRIGGER_ANNOTATION};
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::kinds::Kind;
use crate::query::ListQuery;
use crate::resources::{self, ObjectPath, value};

/// What an action needs: who, and on what.
struct Target {
    kind: &'static Kind,
    caller: Caller,
    namespace: String,
    name: String,
}

impl Target {
    fn new(plural: &str, caller: Caller, Path((namespace, name)): ObjectPath) -> Self {
        let kind = Kind::by_plural(plural).expect("actions are for kinds of the table");
        Self { kind, caller, namespace, name }
    }

    async fn get(&self) -> Result<DynamicObject> {
        Ok(self.kind.api(&self.caller.client, Some(&self.namespace)).get(&self.name).await?)
    }

    /// Patches the object as it was read: somebody else's change in between is a conflict, not overwritten.
    async fn patch(&self, read: &DynamicObject, mut change: Value) -> Result<Response> {
        change["metadata"]["resourceVersion"] = json!(read.metadata.resource_version);
        let objects = self.kind.api(&self.caller.client, Some(&self.namespace));
        let changed = objects.patch(&self.name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(Json((self.kind.view)(&value(&changed))).into_response())
    }

    fn conflict(&self, why: impl std::fmt::Display) -> Error {
        Error::new(StatusCode::CONFLICT, "Conflict", format!("{} {} {why}", self.kind.name, self.name))
    }
}

/// `POST …/tasks/{name}/stop`.
pub async fn stop_task(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    let target = Target::new("tasks", caller, path);
    let task = target.get().await?;
    if let Some(phase) = task.data["status"]["phase"].as_str().filter(|phase| matches!(*phase, "Completed" | "Failed"))
    {
        return Err(target.conflict(format!("has ended already: it is {phase}")));
    }
    target.patch(&task, json!({"metadata": {"annotations": {STOP_ANNOTATION: "true"}}})).await
}

/// `POST …/agents/{name}/suspend`: refused while Tasks run on it, unless `?force=true`.
pub async fn suspend_agent(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    path: ObjectPath,
    Query(query): Query<Force>,
) -> Result<Response> {
    let target = Target::new("agents", caller, path);
    let agent = target.get().await?;
    if !query.force {
        let tasks = Kind::by_plural("tasks").expect("tasks are in the table");
        let tasks = resources::visible(tasks, &app, &target.caller, Some(&target.namespace), None).await?;
        let on_it = |task: &&DynamicObject| task.data["spec"]["agentRef"]["name"] == *target.name;
        let running = tasks.iter().filter(on_it).filter(|task| task.data["status"]["phase"] == "Running").count();
        if running > 0 {
            return Err(
                target.conflict(format!("runs {running} Tasks. Wait for them, stop them, or suspend with ?force=true"))
            );
        }
    }
    target.patch(&agent, json!({"spec": {"suspend": true}})).await
}

/// `POST …/agents/{name}/resume`.
pub async fn resume_agent(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    set_suspend("agents", caller, path, false).await
}

/// `POST …/crontasks/{name}/suspend`.
pub async fn suspend_cron_task(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    set_suspend("crontasks", caller, path, true).await
}

/// `POST …/crontasks/{name}/resume`.
pub async fn resume_cron_task(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    set_suspend("crontasks", caller, path, false).await
}

async fn set_suspend(plural: &str, caller: Caller, path: ObjectPath, suspend: bool) -> Result<Response> {
    let target = Target::new(plural, caller, path);
    let object = target.get().await?;
    target.patch(&object, json!({"spec": {"suspend": suspend}})).await
}

/// `POST …/crontasks/{name}/trigger`: one run now.
pub async fn trigger_cron_task(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    let target = Target::new("crontasks", caller, path);
    let cron_task = target.get().await?;
    if cron_task.data["spec"]["suspend"] == true {
        return Err(target.conflict("is suspended. Resume it first"));
    }
    target.patch(&cron_task, json!({"metadata": {"annotations": {TRIGGER_ANNOTATION: "true"}}})).await
}

/// `GET …/crontasks/{name}/history`: the Tasks it created.
pub async fn cron_task_history(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): ObjectPath,
    Query(mut query): Query<ListQuery>,
    headers: HeaderMap,
) -> Result<Response> {
    let tasks = Kind::by_plural("tasks").expect("tasks are in the table");
    let cron_tasks = Kind::by_plural("crontasks").expect("crontasks are in the table");
    cron_tasks.api(&caller.client, Some(&namespace)).get(&name).await?;
    query.label_selector = Some(format!("{CRON_TASK_LABEL}={name}"));
    resources::list(tasks, &app, &caller, Some(&namespace), &query, &headers).await
}

/// `POST …/promptpacks/{name}/promote`: the canary becomes the active version, whatever its share and numbers.
pub async fn promote_pack(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    conclude("promote", caller, path).await
}

/// `POST …/promptpacks/{name}/abort`: the canary ends, and every session is with the active version again.
pub async fn abort_pack(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    conclude("abort", caller, path).await
}

/// Names the version that is meant, so that a click that comes late does not hit the next one.
async fn conclude(verb: &str, caller: Caller, path: ObjectPath) -> Result<Response> {
    let target = Target::new("promptpacks", caller, path);
    let pack = target.get().await?;
    let Some(version) = pack.data["status"]["canaryVersion"].as_str().map(str::to_owned) else {
        return Err(target.conflict("has no canary: nothing to decide"));
    };
    target.patch(&pack, json!({"spec": {"rollout": {"canary": {verb: version}}}})).await
}

/// `POST …/promptpacks/{name}/retry`: a version whose canary somebody aborted is tried again.
pub async fn retry_pack(Extension(caller): Extension<Caller>, path: ObjectPath) -> Result<Response> {
    let target = Target::new("promptpacks", caller, path);
    let pack = target.get().await?;
    if pack.data["spec"]["rollout"]["canary"]["abort"].is_null() {
        return Err(target.conflict("has no version that somebody aborted. Write another version to try again"));
    }
    target.patch(&pack, json!({"spec": {"rollout": {"canary": {"abort": null}}}})).await
}

/// A canary's share of the sessions.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// In percent. 100 promotes, and stays for the next version.
    #[schemars(range(min = 0, max = 100))]
    percent: u8,
}

/// `POST …/promptpacks/{name}/weight?percent=25`: the canary gets another share of the sessions at once.
pub async fn weigh_pack(
    Extension(caller): Extension<Caller>,
    path: ObjectPath,
    Query(share): Query<Share>,
) -> Result<Response> {
    let target = Target::new("promptpacks", caller, path);
    let pack = target.get().await?;
    if pack.data["spec"]["rollout"]["type"] != "canary" {
        return Err(target.conflict("has no canary: spec.rollout.type is immediate"));
    }
    target.patch(&pack, json!({"spec": {"rollout": {"canary": {"weight": share.percent}}}})).await
}

/// Do it although Tasks run.
#[derive(Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Force {
    /// Suspend it although Tasks run on it.
    force: bool,
}
