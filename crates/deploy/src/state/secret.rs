//! A state in a Secret of the cluster, the lock beside it in the same object: one conditional write decides both.

use async_trait::async_trait;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::store::{overtaken, unlocked};
use super::{Keeper, Lock, State, Store};
use crate::failure::{Category, Failure};
use crate::kubernetes::http::{Error, Http};
use crate::kubernetes::sanitize;
use crate::target::Patience;

/// How often a write is tried over someone else's, or after an unclear answer.
const TRIES: u32 = 8;
/// What states are marked with.
pub const LABEL: &str = "orrery.dev/deployment";
/// What a Secret can hold, less what its own words take.
const LARGEST: usize = 1_000_000;

/// A state in a Secret.
#[derive(Clone)]
pub struct SecretStore {
    http: Http,
    namespace: String,
    name: String,
    held: Option<Held>,
}

#[derive(Clone)]
struct Held {
    lock: Lock,
    serial: u64,
}

/// The Secret as it was read.
#[derive(Clone, Default)]
struct Kept {
    state: State,
    text: String,
    lock: Option<Lock>,
    uid: String,
    version: String,
}

impl SecretStore {
    /// The state of a pack (in an environment), in a namespace.
    pub fn new(client: Client, namespace: &str, pack: &str, environment: Option<&str>) -> Self {
        Self::over(Http::new(client, Patience::default()), namespace, pack, environment)
    }

    pub(crate) fn over(http: Http, namespace: &str, pack: &str, environment: Option<&str>) -> Self {
        let name = match environment {
            None => format!("orrery-deploy-{pack}"),
            Some(environment) => format!("orrery-deploy-{pack}.{}", sanitize(environment)),
        };
        Self { http, namespace: namespace.to_owned(), name, held: None }
    }

    /// Where it is, for people.
    pub fn place(&self) -> String {
        format!("Secret {} in namespace {}", self.name, self.namespace)
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, self.name)
    }

    async fn load(&self) -> Result<Option<Kept>, Failure> {
        let found = self.http.find(&self.path()).await;
        found.map_err(|error| self.during(&error))?.map(|secret| self.kept(&secret)).transpose()
    }

    fn during(&self, error: &Error) -> Failure {
        error.failure().during(self.place())
    }

    fn kept(&self, secret: &Value) -> Result<Kept, Failure> {
        let read = |field: &str| -> Result<String, Failure> {
            let Some(encoded) = secret["data"][field].as_str() else { return Ok(String::new()) };
            let bytes = BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            bytes.ok_or_else(|| Failure::new(Category::Configuration, format!("{}: {field} is no text", self.place())))
        };
        let (text, lock) = (read("state")?, read("lock")?);
        let meta = |field: &str| secret["metadata"][field].as_str().unwrap_or_default().to_owned();
        let lock = if lock.is_empty() { None } else { serde_json::from_str(&lock).ok() };
        Ok(Kept { state: State::parse(&text)?, text, lock, uid: meta("uid"), version: meta("resourceVersion") })
    }

    /// Writes the Secret, if it is still as it was read.
    async fn write(&self, kept: &Kept) -> Result<(), Error> {
        let mut data = serde_json::Map::new();
        if !kept.text.is_empty() {
            data.insert("state".into(), BASE64_STANDARD.encode(&kept.text).into());
        }
        if let Some(lock) = &kept.lock {
            let text = serde_json::to_string(lock).expect("a lock is JSON");
            data.insert("lock".into(), BASE64_STANDARD.encode(text).into());
        }
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "orrery.dev/deployment-state", "data": data,
            "metadata": { "name": self.name, "labels": { "app.kubernetes.io/managed-by": "orrery", LABEL: "state" } },
        });
        let manager = "fieldManager=orrery-deploy";
        if kept.uid.is_empty() {
            let path = format!("/api/v1/namespaces/{}/secrets?{manager}", self.namespace);
            return self.http.send(Method::POST, &path, Some(&secret)).await.map(drop);
        }
        secret["metadata"]["uid"] = kept.uid.clone().into();
        secret["metadata"]["resourceVersion"] = kept.version.clone().into();
        let path = format!("{}?{manager}", self.path());
        self.http.send(Method::PUT, &path, Some(&secret)).await.map(drop)
    }

    /// Reads, changes and writes, until it is clear that it was done or cannot be. `change` sees what is there, and
    /// answers what should be; nothing when it is there already.
    async fn change(
        &self,
        mut change: impl FnMut(Kept) -> Result<Option<Kept>, Failure> + Send,
    ) -> Result<(), Failure> {
        let mut attempt = 0;
        loop {
            let found = self.load().await?.unwrap_or_default();
            let Some(wanted) = change(found)? else { return Ok(()) };
            match self.write(&wanted).await {
                Ok(()) => return Ok(()),
                Err(error)
                    if (error.is_unclear() || error.is_conflict() || error.is_already_there()) && attempt < TRIES =>
                {
                    attempt += 1;
                    self.http.pause(attempt).await;
                }
                Err(error) => return Err(self.during(&error)),
            }
        }
    }
}

#[async_trait]
impl Keeper for SecretStore {
    async fn keep(&mut self, state: &State) -> Result<(), Failure> {
        let Some(held) = self.held.clone() else { return Err(unlocked()) };
        let text = state.to_text();
        if text.len() > LARGEST {
            let message = format!("the state has {} bytes, a Secret holds {LARGEST}", text.len());
            return Err(Failure::new(Category::Resource, message).hint("keep it in a file: --state FILE"));
        }
        self.change(|found| match &found.lock {
            Some(lock) if lock.id == held.lock.id && found.text == text => Ok(None),
            Some(lock) if lock.id == held.lock.id && found.state.serial == held.serial => {
                Ok(Some(Kept { text: text.clone(), ..found }))
            }
            Some(lock) if lock.id == held.lock.id => Err(overtaken(held.serial, found.state.serial)),
            other => Err(held.lock.lost(other.as_ref())),
        })
        .await?;
        self.held = Some(Held { serial: state.serial, ..held });
        Ok(())
    }
}

#[async_trait]
impl Store for SecretStore {
    async fn read(&self) -> Result<(State, Option<Lock>), Failure> {
        let kept = self.load().await?.unwrap_or_default();
        Ok((kept.state, kept.lock))
    }

    async fn lock(&mut self, lock: &Lock) -> Result<State, Failure> {
        let mut state = State::default();
        self.change(|found| {
            state = found.state.clone();
            match &found.lock {
                Some(present) if present.id == lock.id => Ok(None),
                Some(present) => Err(present.held()),
                None => Ok(Some(Kept { lock: Some(lock.clone()), ..found })),
            }
        })
        .await?;
        self.held = Some(Held { lock: lock.clone(), serial: state.serial });
        Ok(state)
    }

    async fn unlock(&mut self) -> Result<(), Failure> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let mut empty = None;
        self.change(|found| match &found.lock {
            Some(lock) if lock.id == held.lock.id => {
                empty = found.state.resources.is_empty().then(|| found.clone());
                // What holds nothing is deleted below, with its lock still on.
                Ok(if empty.is_some() { None } else { Some(Kept { lock: None, ..found }) })
            }
            // Unlocked by force, or by a write of ours whose answer was lost.
            _ => Ok(None),
        })
        .await?;
        let Some(empty) = empty else { return Ok(()) };
        let options = json!({ "preconditions": { "uid": empty.uid, "resourceVersion": empty.version } });
        match self.http.send(Method::DELETE, &self.path(), Some(&options)).await {
            Err(error) if !error.is_not_found() => Err(self.during(&error)),
            _ => Ok(()),
        }
    }

    async fn force_unlock(&self, id: &str) -> Result<(), Failure> {
        let mut tried = false;
        self.change(|found| match Lock::breakable(found.lock.as_ref(), id) {
            // Ours, if the answer to it was lost.
            Err(_) if tried && found.lock.is_none() => Ok(None),
            Err(failure) => Err(failure),
            Ok(()) => {
                tried = true;
                Ok(Some(Kept { lock: None, ..found }))
            }
        })
        .await
    }
}
