//! The one place where controllers write. Every write is conditional on what was observed, or an idempotent create.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kube::Client;
use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, Request};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::cache::Caches;
use crate::decision::{Call, Deletion, Patch, Step};
use crate::error::{Error, Failure, FailureKind};
use crate::key::{Key, Object, Target, collection_path};
use crate::metrics::ControllerMetrics;
use crate::view::read;

mod compare;

/// Applied objects that are remembered; forgetting one costs an apply that changes nothing.
const REMEMBERED: usize = 20_000;

/// Writes in the name of one controller.
pub(crate) struct Applier {
    client: Client,
    manager: &'static str,
    caches: Arc<Caches>,
    metrics: ControllerMetrics,
    /// What was applied last, by hash, and the version that made: an apply that repeats it is needed only if someone
    /// changed our fields since.
    applied: Mutex<HashMap<(String, Key), (u64, String)>>,
}

/// Why the steps of a decision stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// What was observed is no longer true: observe again.
    Stale,
    /// A step was refused.
    Failed(Failure),
}

impl Applier {
    pub(crate) fn new(client: Client, manager: &'static str, caches: Arc<Caches>, metrics: ControllerMetrics) -> Self {
        Self { client, manager, caches, metrics, applied: Mutex::new(HashMap::new()) }
    }

    /// Performs the steps in order, up to the first that fails. Says how many are done, and what stopped it.
    pub(crate) async fn act(&self, steps: &[Step]) -> (usize, Result<(), Stop>) {
        let mut done = 0;
        let result = self.perform(steps, &mut done).await;
        (done, result)
    }

    async fn perform(&self, steps: &[Step], done: &mut usize) -> Result<(), Stop> {
        // A decision may write the same object twice; the second write builds on the first, not on what was observed.
        let mut versions: HashMap<String, String> = HashMap::new();
        for step in steps {
            let written = match step {
                Step::Apply(object) => self.apply(object).await?,
                Step::Create(object) => self.create(object).await?,
                Step::Delete(deletion) => self.delete(&renewed(&deletion.target, &versions), deletion).await?,
                Step::Patch(patch) => self.patch(&renewed(&patch.target, &versions), patch).await?,
                Step::Call(call) => self.call(&renewed(&call.target, &versions), call).await?,
            };
            if let Some(value) = written {
                let meta = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
                versions.insert(meta("uid"), meta("resourceVersion"));
            }
            *done += 1;
        }
        Ok(())
    }

    async fn apply(&self, object: &Object) -> Result<Option<Value>, Stop> {
        let (resource, key) = (&object.resource, object.key());
        let what = describe("apply", resource, &key);
        let current = match self.caches.value(resource, &key) {
            Some(value) => Some(value),
            // Absence is believed only from a live read.
            None => read(&self.client, resource, &key).await.map_err(|error| failed(&what, &error))?,
        };
        let memory = (format!("{}.{}", resource.plural, resource.group), key.clone());
        let mut hasher = DefaultHasher::new();
        object.value.hash(&mut hasher);
        let hash = hasher.finish();

        let mut body = object.value.clone();
        let mut params = PatchParams::apply(self.manager);
        if let Some(current) = &current {
            check_ours(&what, current, object)?;
            let last = self.applied.lock().get(&memory).cloned();
            let version = current["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let unchanged = |last: (u64, String)| {
                last.0 == hash && (last.1 == version || compare::contains(current, &object.value))
            };
            if last.is_some_and(unchanged) {
                return Ok(None);
            }
            // Ours, so our fields are as we say; but only if it is still the object that we looked at.
            params = params.force();
            body["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        }
        let request = Request::new(collection_path(resource, &key.namespace));
        let request = request.patch(&key.name, &params, &kube::api::Patch::Apply(&body)).map_err(invalid(&what))?;
        let answer = match (self.send(resource, &key, &what, "apply", request).await, &current) {
            (Err(Stop::Failed(failure)), Some(known)) => {
                return Err(self.unless_gone(resource, &key, known, failure).await);
            }
            (answer, _) => answer?,
        };
        let mut applied = self.applied.lock();
        if applied.len() >= REMEMBERED {
            applied.clear();
        }
        let version = answer["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        applied.insert(memory, (hash, version));
        Ok(Some(answer))
    }

    async fn create(&self, object: &Object) -> Result<Option<Value>, Stop> {
        let (resource, key) = (&object.resource, object.key());
        let what = describe("create", resource, &key);
        if let Some(current) = self.caches.value(resource, &key) {
            return check_ours(&what, &current, object).map(|()| None);
        }
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let body = serde_json::to_vec(&object.value).expect("JSON serializes");
        let request = Request::new(collection_path(resource, &key.namespace));
        let request = request.create(&params, body).map_err(invalid(&what))?;
        self.metrics.wrote("create");
        match self.client.request::<Value>(request).await.map_err(Error::from) {
            Ok(answer) => {
                self.caches.offer(resource, &answer);
                Ok(Some(answer))
            }
            Err(error) if error.is_already_exists() => {
                let current = read(&self.client, resource, &key).await.map_err(|error| failed(&what, &error))?;
                let current = current.ok_or(Stop::Stale)?;
                self.caches.offer(resource, &current);
                check_ours(&what, &current, object).map(|()| None)
            }
            Err(error) => Err(failed(&what, &error)),
        }
    }

    async fn patch(&self, target: &Target, patch: &Patch) -> Result<Option<Value>, Stop> {
        let (resource, key) = (&target.resource, &target.key);
        let what = describe("change", resource, key);
        let mut body = patch.body.clone();
        body["metadata"]["resourceVersion"] = json!(target.resource_version);
        body["metadata"]["uid"] = json!(target.uid);
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let request = Request::new(collection_path(resource, &key.namespace));
        let merge = kube::api::Patch::Merge(&body);
        let request = match patch.subresource {
            Some(subresource) => request.patch_subresource(subresource, &key.name, &params, &merge),
            None => request.patch(&key.name, &params, &merge),
        };
        let verb = if patch.subresource == Some("status") { "status" } else { "patch" };
        let answer = self.send(resource, key, &what, verb, request.map_err(invalid(&what))?).await?;
        // Dropping the last finalizer of a deleted object removes it.
        let meta = &answer["metadata"];
        let empty = meta["finalizers"].as_array().is_none_or(Vec::is_empty);
        let graceful = meta["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
        if meta["deletionTimestamp"].is_string()
            && empty
            && !graceful
            && patch.body["metadata"]["finalizers"].is_array()
        {
            self.caches.forget(resource, key, &target.uid);
        }
        Ok(Some(answer))
    }

    async fn call(&self, target: &Target, call: &Call) -> Result<Option<Value>, Stop> {
        let (resource, key) = (&target.resource, &target.key);
        let what = describe(call.subresource, resource, key);
        let mut body = call.body.clone();
        body["metadata"]["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            body["metadata"]["namespace"] = json!(key.namespace);
        }
        body["metadata"]["uid"] = json!(target.uid);
        body["metadata"]["resourceVersion"] = json!(target.resource_version);
        let body = serde_json::to_vec(&body).expect("JSON serializes");
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let request = Request::new(collection_path(resource, &key.namespace));
        let request = if call.replace {
            request.replace_subresource(call.subresource, &key.name, &params, body)
        } else {
            request.create_subresource(call.subresource, &key.name, &params, body)
        };
        self.metrics.wrote(call.subresource);
        match self.client.request::<Value>(request.map_err(invalid(&what))?).await.map_err(Error::from) {
            // Such a subresource may answer with anything; look at what became of the object itself.
            Ok(_) => match self.look_again(resource, key, &target.uid).await {
                Err(Stop::Stale) => Ok(self.caches.value(resource, key)),
                other => other,
            },
            Err(error) if error.is_stale() || error.is_not_found() => self.look_again(resource, key, &target.uid).await,
            Err(error) => Err(failed(&what, &error)),
        }
    }

    async fn delete(&self, target: &Target, deletion: &Deletion) -> Result<Option<Value>, Stop> {
        let (resource, key) = (&target.resource, &target.key);
        let what = describe("delete", resource, key);
        let params = DeleteParams {
            grace_period_seconds: deletion.grace_seconds,
            propagation_policy: deletion.propagation.clone(),
            preconditions: Some(Preconditions {
                uid: Some(target.uid.clone()),
                resource_version: Some(target.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(collection_path(resource, &key.namespace));
        let request = request.delete(&key.name, &params).map_err(invalid(&what))?;
        self.metrics.wrote("delete");
        match self.client.request::<Value>(request).await.map_err(Error::from) {
            // Still there, for its grace period or its finalizers; otherwise the answer is a Status or the last state.
            Ok(object) if object["metadata"]["deletionTimestamp"].is_string() => {
                self.caches.offer(resource, &object);
                Ok(Some(object))
            }
            Ok(_) => {
                self.caches.forget(resource, key, &target.uid);
                Ok(None)
            }
            Err(error) if error.is_not_found() => {
                self.caches.forget(resource, key, &target.uid);
                Ok(None)
            }
            Err(error) if error.is_stale() => self.look_again(resource, key, &target.uid).await,
            Err(error) => Err(failed(&what, &error)),
        }
    }

    /// Sends a change of an existing object and shows the answer to everyone in this process.
    async fn send(
        &self,
        resource: &ApiResource,
        key: &Key,
        what: &str,
        verb: &'static str,
        request: http::Request<Vec<u8>>,
    ) -> Result<Value, Stop> {
        self.metrics.wrote(verb);
        match self.client.request::<Value>(request).await.map_err(Error::from) {
            Ok(answer) => {
                self.caches.offer(resource, &answer);
                Ok(answer)
            }
            Err(error) if error.is_stale() || (error.is_not_found() && verb != "apply") => {
                let known = self.caches.value(resource, key);
                let uid = known.as_ref().and_then(|known| known["metadata"]["uid"].as_str()).unwrap_or_default();
                self.look_again(resource, key, uid).await.map(|_| Value::Null)
            }
            Err(error) => Err(failed(what, &error)),
        }
    }

    /// Why an apply with a version was refused. Servers have several answers when the object is gone, and none of them
    /// means that what we want cannot be.
    async fn unless_gone(&self, resource: &ApiResource, key: &Key, known: &Value, failure: Failure) -> Stop {
        match read(&self.client, resource, key).await {
            Ok(None) => {
                self.caches.forget(resource, key, known["metadata"]["uid"].as_str().unwrap_or_default());
                Stop::Stale
            }
            _ => Stop::Failed(failure),
        }
    }

    /// The cache was behind: bring it forward now instead of waiting for the watch.
    async fn look_again(&self, resource: &ApiResource, key: &Key, uid: &str) -> Result<Option<Value>, Stop> {
        match read(&self.client, resource, key).await {
            Ok(Some(value)) => self.caches.offer(resource, &value),
            Ok(None) => self.caches.forget(resource, key, uid),
            Err(error) => return Err(failed(&describe("read", resource, key), &error)),
        }
        Err(Stop::Stale)
    }
}

fn renewed(target: &Target, versions: &HashMap<String, String>) -> Target {
    let mut target = target.clone();
    if let Some(version) = versions.get(&target.uid) {
        target.resource_version.clone_from(version);
    }
    target
}

/// An existing object is ours when it names the same owner and the same manager as the one we want.
fn check_ours(what: &str, current: &Value, wanted: &Object) -> Result<(), Stop> {
    let failure = |reason, message| Err(Stop::Failed(Failure { reason, message, kind: FailureKind::Waiting }));
    if let Some(stranger) = compare::stranger(current, &wanted.value) {
        return failure("Conflict", format!("{what}: it exists and {stranger}; rename or delete it"));
    }
    if current["metadata"]["deletionTimestamp"].is_string() {
        return failure("Terminating", format!("{what}: its predecessor is still being deleted"));
    }
    Ok(())
}

fn describe(verb: &str, resource: &ApiResource, key: &Key) -> String {
    format!("cannot {verb} {} {key}", resource.kind)
}

fn failed(what: &str, error: &Error) -> Stop {
    Stop::Failed(Failure::of(what, error))
}

fn invalid(what: &str) -> impl FnOnce(kube::core::request::Error) -> Stop + '_ {
    move |error| {
        let message = format!("{what}: {}", Error::request(error).chain());
        Stop::Failed(Failure { reason: "Invalid", message, kind: FailureKind::Permanent })
    }
}
