//! The Kubernetes target: packs become a `ConfigMap` and objects of the Omnia dialect, written straight to the API.

mod config;
mod connect;
mod desired;
mod health;
pub(crate) mod http;
mod kinds;
mod merge;
mod names;

use std::collections::BTreeSet;

use ::http::Method;
use async_trait::async_trait;
use futures::future::{join_all, try_join_all};
use futures::{StreamExt as _, stream};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

pub use config::{Config, Invalid, SCHEMA};
pub use connect::{Endpoint, client};
pub use desired::{Built, LARGEST_PACK, build};
pub use names::sanitize;

use crate::ABREAST;
use crate::failure::{Category, Failure};
use crate::plan::not_ours;
use crate::resource::{Desired, Key};
use crate::state::{Resource, SecretStore};
use crate::status::Health;
use crate::target::{Live, Patience, Preview, Target, Tell, Written};
use http::{Error, Http};
use kinds::Kind;

/// Who we are in `managedFields`.
pub const MANAGER: &str = "orrery-deploy";
/// How often a write is tried over other people's, or after an unclear answer.
const TRIES: u32 = 5;

/// A namespace of a cluster, for one pack.
pub struct Kubernetes {
    http: Http,
    namespace: String,
    pack: String,
    version: String,
    providers: BTreeSet<String>,
    patience: Patience,
}

impl Kubernetes {
    /// The namespace that a configuration names, for a pack.
    pub fn new(client: Client, config: &Config, pack: &str, version: &str, patience: Patience) -> Self {
        Self {
            http: Http::new(client, patience),
            namespace: config.workspace.clone(),
            pack: pack.to_owned(),
            version: version.to_owned(),
            providers: config.providers.values().cloned().collect(),
            patience,
        }
    }

    /// The state of the pack, kept in this namespace.
    pub fn state(&self, environment: Option<&str>) -> SecretStore {
        SecretStore::over(self.http.clone(), &self.namespace, &self.pack, environment)
    }

    fn kind(key: &Key) -> Result<&'static Kind, Failure> {
        Kind::of(&key.type_)
            .ok_or_else(|| Failure::new(Category::Configuration, format!("{:?} is no type of this version", key.type_)))
    }

    fn path(&self, kind: &Kind, name: &str) -> String {
        format!("{}/{name}", kind.collection(&self.namespace))
    }

    fn live(&self, kind: &Kind, object: Value) -> Live {
        let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Live {
            key: Key::new(kind.type_, meta("name")),
            uid: meta("uid"),
            resource_version: meta("resourceVersion"),
            owner: names::owner(&object, &self.pack, kind.type_),
            object,
        }
    }

    async fn find(&self, key: &Key) -> Result<Option<Live>, Failure> {
        let kind = Self::kind(key)?;
        let found = self.http.find(&self.path(kind, &key.name)).await.map_err(|error| during("read", key, &error))?;
        Ok(found.map(|object| self.live(kind, object)))
    }

    async fn list(&self, kind: &'static Kind) -> Result<Vec<Live>, Failure> {
        if self.pack.is_empty() {
            return Ok(Vec::new());
        }
        let selector = names::selector(&self.pack);
        let path = format!("{}?labelSelector={selector}", kind.collection(&self.namespace));
        let mut list =
            self.http.get(&path).await.map_err(|error| error.failure().during(format!("list {}", kind.plural)))?;
        let Value::Array(items) = list["items"].take() else { return Ok(Vec::new()) };
        let typed = |mut item: Value| {
            // Lists leave out what all their items share.
            item["apiVersion"] = kind.api_version.into();
            item["kind"] = kind.kind.into();
            self.live(kind, item)
        };
        Ok(items.into_iter().map(typed).collect())
    }

    fn written(kind: &Kind, object: &Value) -> Written {
        let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let mut metadata = json!({ "api": kind.api_version, "resource": kind.plural });
        // Who looks later sees by it whether someone else has changed the object since.
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            metadata["generation"] = generation.into();
        }
        let Value::Object(metadata) = metadata else { unreachable!("an object, as written above") };
        Written { uid: meta("uid"), resource_version: meta("resourceVersion"), metadata }
    }

    /// The path of a resource whose type this version does not know, from what the state says about it.
    fn recorded_path(&self, resource: &Resource) -> Result<String, Failure> {
        let key = &resource.key;
        if let Some(kind) = Kind::of(&key.type_) {
            return Ok(self.path(kind, &key.name));
        }
        let word = |field: &str| resource.metadata.get(field).and_then(Value::as_str);
        match (word("api"), word("resource")) {
            (Some(api), Some(plural)) => {
                Ok(format!("{}/{}", kinds::collection(api, plural, &self.namespace), key.name))
            }
            _ => Err(Failure::new(
                Category::Configuration,
                "this version does not know its type, and the state does not say where it is",
            )
            .hint("use the version that made it, or delete it by hand")),
        }
    }

    /// Waits until an object is gone, or is another one.
    async fn gone(&self, path: &str, uid: &str) -> Result<(), Failure> {
        let deadline = Instant::now() + self.patience.settle;
        let mut attempt = 0;
        loop {
            let object = match self.http.find(path).await.map_err(|error| error.failure())? {
                Some(object) if object["metadata"]["uid"] == uid => object,
                _ => return Ok(()),
            };
            if Instant::now() >= deadline {
                let holders = object["metadata"]["finalizers"].to_string();
                return Err(Failure::new(
                    Category::Timeout,
                    format!("it is still being deleted; finalizers: {holders}"),
                )
                .hint("is the controller that should remove them running?"));
            }
            self.http.pause(attempt).await;
            attempt = (attempt + 1).min(3);
        }
    }
}

fn during(verb: &str, key: &Key, error: &Error) -> Failure {
    error.failure().during(format!("{verb} {key}"))
}

#[async_trait]
impl Target for Kubernetes {
    fn types(&self) -> &'static [&'static str] {
        kinds::TYPES
    }

    fn scope(&self) -> String {
        format!("kubernetes:{}", self.namespace)
    }

    async fn check(&self) -> Result<Vec<String>, Vec<Failure>> {
        let asked = self.providers.iter().map(|name| async move {
            let path = format!("{}/{name}", kinds::collection(kinds::OMNIA, "providers", &self.namespace));
            match self.http.find(&path).await {
                Ok(Some(_)) => None,
                Ok(None) => {
                    let message = format!("providers: there is no Provider {name:?} in workspace {:?}", self.namespace);
                    Some(Failure::new(Category::NotFound, message).hint("create it, or name another"))
                }
                Err(error) => Some(error.failure().during(format!("read Provider {name:?}"))),
            }
        });
        let failures: Vec<Failure> = join_all(asked).await.into_iter().flatten().collect();
        if failures.is_empty() { Ok(Vec::new()) } else { Err(failures) }
    }

    /// What carries our labels is listed, what the state knows beside that is read. A name that someone else has taken is
    /// met by the dry run of its creation.
    async fn observe(&self, _: &[Desired], known: &[Resource]) -> Result<Vec<Live>, Failure> {
        let lists = try_join_all(kinds::KINDS.iter().map(|kind| self.list(kind))).await?;
        let mut live: Vec<Live> = lists.into_iter().flatten().collect();
        let listed: BTreeSet<Key> = live.iter().map(|live| live.key.clone()).collect();
        let mut others: Vec<Key> = known.iter().map(|resource| resource.key.clone()).collect();
        others.retain(|key| Kind::of(&key.type_).is_some() && !listed.contains(key));
        let reads = stream::iter(others).map(|key: Key| async move { self.find(&key).await });
        let mut reads = reads.buffer_unordered(ABREAST);
        while let Some(found) = reads.next().await {
            live.extend(found?);
        }
        Ok(live)
    }

    async fn preview(&self, desired: &Desired, live: Option<&Live>) -> Result<Preview, Failure> {
        let (key, kind) = (&desired.key, Self::kind(&desired.key)?);
        let Some(live) = live else {
            let path = format!("{}?dryRun=All&fieldManager={MANAGER}", kind.collection(&self.namespace));
            return match self.http.send(Method::POST, &path, Some(&desired.body)).await {
                Ok(_) => Ok(Preview::default()),
                Err(error) if error.is_already_there() => Err(match self.find(key).await? {
                    Some(live) => not_ours(key, &names::stranger(&live.owner)),
                    None => Failure::new(Category::Conflict, format!("{key} comes and goes")).hint("plan again"),
                }),
                Err(error) => Err(during("create", key, &error)),
            };
        };
        let mut object = live.object.clone();
        let mut attempt = 0;
        loop {
            let wanted = merge::merge(&object, &desired.body);
            if wanted == object {
                return Ok(Preview::default());
            }
            let path = format!("{}?dryRun=All&fieldManager={MANAGER}", self.path(kind, &key.name));
            match self.http.send(Method::PUT, &path, Some(&wanted)).await {
                Ok(result) => return Ok(Preview { fields: merge::fields(&object, &result) }),
                Err(error) if (error.is_conflict() || error.is_unclear()) && attempt < TRIES => {
                    attempt += 1;
                    self.http.pause(attempt).await;
                    object = match self.find(key).await? {
                        Some(found) => found.object,
                        None => return Err(during("update", key, &error)),
                    };
                }
                Err(error) => return Err(during("update", key, &error)),
            }
        }
    }

    async fn create(&self, desired: &Desired, known: &[Resource]) -> Result<Written, Failure> {
        let (key, kind) = (&desired.key, Self::kind(&desired.key)?);
        let path = format!("{}?fieldManager={MANAGER}", kind.collection(&self.namespace));
        let mut attempt = 0;
        loop {
            let error = match self.http.send(Method::POST, &path, Some(&desired.body)).await {
                Ok(object) => return Ok(Self::written(kind, &object)),
                Err(error) => error,
            };
            if !error.is_already_there() && !error.is_unclear() {
                return Err(error.failure());
            }
            // It is there: perhaps this very request made it, and the answer was lost.
            match self.find(key).await? {
                Some(live) if live.owner == crate::Owner::Us => return self.update(desired, &live.uid, known).await,
                Some(live) => return Err(not_ours(key, &names::stranger(&live.owner))),
                None if attempt < TRIES => {
                    attempt += 1;
                    self.http.pause(attempt).await;
                }
                None => return Err(error.failure()),
            }
        }
    }

    async fn update(&self, desired: &Desired, uid: &str, _: &[Resource]) -> Result<Written, Failure> {
        let (key, kind) = (&desired.key, Self::kind(&desired.key)?);
        let path = self.path(kind, &key.name);
        let mut attempt = 0;
        loop {
            let found = self.http.find(&path).await.map_err(|error| error.failure())?;
            let Some(live) = found.filter(|live| live["metadata"]["uid"] == uid) else {
                let message = format!("{key} is not there any more as the plan saw it");
                return Err(Failure::new(Category::Conflict, message).hint("plan again"));
            };
            let wanted = merge::merge(&live, &desired.body);
            if wanted == live {
                return Ok(Self::written(kind, &live));
            }
            match self.http.send(Method::PUT, &format!("{path}?fieldManager={MANAGER}"), Some(&wanted)).await {
                Ok(object) => return Ok(Self::written(kind, &object)),
                Err(error) if (error.is_conflict() || error.is_unclear()) && attempt < TRIES => {
                    attempt += 1;
                    self.http.pause(attempt).await;
                }
                Err(error) => return Err(error.failure()),
            }
        }
    }

    async fn delete(&self, resource: &Resource) -> Result<(), Failure> {
        let path = self.recorded_path(resource)?;
        let mut attempt = 0;
        loop {
            let Some(object) = self.http.find(&path).await.map_err(|error| error.failure())? else { return Ok(()) };
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let ours = match &resource.uid {
                Some(known) => *known == uid,
                None => names::owner(&object, &self.pack, &resource.key.type_) == crate::Owner::Us,
            };
            // Ours is gone; who has its name now is not ours to delete.
            if !ours {
                return Ok(());
            }
            if object["metadata"]["deletionTimestamp"].is_string() {
                return self.gone(&path, &uid).await;
            }
            let options = json!({ "preconditions": { "uid": uid }, "propagationPolicy": "Background" });
            match self.http.send(Method::DELETE, &path, Some(&options)).await {
                Ok(_) => return self.gone(&path, &uid).await,
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if (error.is_conflict() || error.is_unclear()) && attempt < TRIES => {
                    attempt += 1;
                    self.http.pause(attempt).await;
                }
                Err(error) => return Err(error.failure()),
            }
        }
    }

    async fn settle(&self, key: &Key, progress: &Tell<'_>) -> Result<(), Failure> {
        // Only runtimes run; the rest is data that they read.
        if key.type_ != kinds::AGENT_RUNTIME {
            return Ok(());
        }
        let start = Instant::now();
        let mut said = String::new();
        let mut failed_since: Option<Instant> = None;
        let mut attempt = 0;
        loop {
            let Some(live) = self.find(key).await? else {
                return Err(Failure::new(Category::NotFound, "it was deleted by someone else"));
            };
            let why = match health::runtime(&live.object, Some(&self.version)) {
                Health::Healthy(_) => return Ok(()),
                Health::Unhealthy(why) => why,
            };
            if why != said {
                progress(&why);
                said.clone_from(&why);
            }
            failed_since = if health::failed(&live.object) { failed_since.or(Some(Instant::now())) } else { None };
            let believed = failed_since.is_some_and(|since| since.elapsed() >= self.patience.doubt);
            if believed || start.elapsed() >= self.patience.settle {
                let seconds = start.elapsed().as_secs();
                return Err(Failure::new(Category::Timeout, format!("it is not Ready after {seconds} s: {why}"))
                    .hint("it is written and may still come up; apply again looks again"));
            }
            self.http.pause(attempt).await;
            attempt = (attempt + 1).min(3);
        }
    }

    fn health(&self, live: &Live) -> Health {
        health::of(live)
    }
}
