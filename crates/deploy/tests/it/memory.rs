//! A target in memory that can be told to fail.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use orrery_deploy::{
    Category, Desired, Failure, FieldChange, Health, Keeper, Key, Live, Owner, Preview, Resource, State, Target, Tell,
    Written,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

pub const TYPES: &[&str] = &["store", "pack", "agent"];

#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub uid: String,
    pub version: u64,
    pub ours: bool,
    pub body: Value,
    /// Who changed it last, when it was not us.
    pub manager: Option<String>,
}

/// What goes wrong with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing is written.
    Refused,
    /// It is written, and the caller hears of a failure.
    AnswerLost,
    /// It is written and never works.
    NeverReady,
}

#[derive(Default)]
pub struct Memory {
    pub objects: Mutex<BTreeMap<Key, Object>>,
    pub writes: Mutex<Vec<(Key, &'static str)>>,
    pub trouble: Mutex<BTreeMap<Key, Trouble>>,
    made: Mutex<u64>,
}

impl Memory {
    fn number(&self) -> u64 {
        *self.made.lock() += 1;
        *self.made.lock()
    }

    /// Someone else makes an object.
    pub fn put(&self, key: &Key, ours: bool, body: Value) {
        let number = self.number();
        let object = Object { uid: format!("u{number}"), version: number, ours, body, manager: Some("kubectl".into()) };
        self.objects.lock().insert(key.clone(), object);
    }

    /// Someone else changes an object, if it is there.
    pub fn edit(&self, key: &Key, body: Value) {
        let number = self.number();
        if let Some(object) = self.objects.lock().get_mut(key) {
            (object.body, object.version, object.manager) = (body, number, Some("kubectl".into()));
        }
    }

    pub fn owned(&self) -> BTreeMap<Key, Value> {
        let objects = self.objects.lock();
        objects
            .iter()
            .filter(|(_, object)| object.ours)
            .map(|(key, object)| (key.clone(), object.body.clone()))
            .collect()
    }

    pub fn touched(&self) -> BTreeSet<(Key, &'static str)> {
        self.writes.lock().drain(..).collect()
    }

    fn write(
        &self,
        key: &Key,
        verb: &'static str,
        change: impl FnOnce(&mut BTreeMap<Key, Object>),
    ) -> Result<(), Failure> {
        let trouble = self.trouble.lock().get(key).copied();
        if trouble == Some(Trouble::Refused) {
            return Err(Failure::new(Category::Resource, "refused"));
        }
        self.writes.lock().push((key.clone(), verb));
        change(&mut self.objects.lock());
        match trouble {
            Some(Trouble::AnswerLost) => Err(Failure::new(Category::Network, "the answer was lost")),
            _ => Ok(()),
        }
    }

    fn written(&self, key: &Key) -> Written {
        let object = self.objects.lock()[key].clone();
        Written { uid: object.uid, resource_version: object.version.to_string(), metadata: Map::new() }
    }
}

#[async_trait]
impl Target for Memory {
    fn types(&self) -> &'static [&'static str] {
        TYPES
    }

    fn scope(&self) -> String {
        "memory".into()
    }

    async fn check(&self) -> Result<Vec<String>, Vec<Failure>> {
        Ok(Vec::new())
    }

    async fn observe(&self, _: &[Desired], _: &[Resource]) -> Result<Vec<Live>, Failure> {
        let objects = self.objects.lock();
        let live = objects.iter().map(|(key, object)| Live {
            key: key.clone(),
            uid: object.uid.clone(),
            resource_version: object.version.to_string(),
            owner: if object.ours { Owner::Us } else { Owner::Other("belongs to someone else".into()) },
            object: json!({ "body": object.body, "manager": object.manager }),
        });
        Ok(live.collect())
    }

    async fn preview(&self, desired: &Desired, live: Option<&Live>) -> Result<Preview, Failure> {
        let Some(live) = live.filter(|live| live.object["body"] != desired.body) else { return Ok(Preview::default()) };
        let manager = live.object["manager"].as_str().map(str::to_owned);
        let (before, after) = (Some(live.object["body"].clone()), Some(desired.body.clone()));
        Ok(Preview { fields: vec![FieldChange { path: "body".into(), before, after, manager }] })
    }

    async fn create(&self, desired: &Desired, _: &[Resource]) -> Result<Written, Failure> {
        let number = self.number();
        let present = self.objects.lock().get(&desired.key).map(|object| object.ours);
        if present == Some(false) {
            return Err(Failure::new(Category::Conflict, "it is someone else's"));
        }
        self.write(&desired.key, "create", |objects| {
            let object = Object {
                uid: format!("u{number}"),
                version: number,
                ours: true,
                body: desired.body.clone(),
                manager: None,
            };
            objects.insert(desired.key.clone(), object);
        })?;
        Ok(self.written(&desired.key))
    }

    async fn update(&self, desired: &Desired, uid: &str, _: &[Resource]) -> Result<Written, Failure> {
        let number = self.number();
        if self.objects.lock().get(&desired.key).is_none_or(|object| object.uid != uid) {
            return Err(Failure::new(Category::Conflict, "it is another object"));
        }
        self.write(&desired.key, "update", |objects| {
            let object = objects.get_mut(&desired.key).unwrap();
            (object.body, object.version, object.manager, object.ours) = (desired.body.clone(), number, None, true);
        })?;
        Ok(self.written(&desired.key))
    }

    async fn delete(&self, resource: &Resource) -> Result<(), Failure> {
        let found = self.objects.lock().get(&resource.key).cloned();
        let ours = |object: &Object| resource.uid.as_ref().map_or(object.ours, |uid| *uid == object.uid);
        if !found.is_some_and(|object| ours(&object)) {
            return Ok(());
        }
        self.write(&resource.key, "delete", |objects| {
            objects.remove(&resource.key);
        })
    }

    async fn settle(&self, key: &Key, progress: &Tell<'_>) -> Result<(), Failure> {
        progress("looking");
        match self.trouble.lock().get(key) {
            Some(Trouble::NeverReady) => Err(Failure::new(Category::Timeout, "it does not work")),
            _ => Ok(()),
        }
    }

    fn health(&self, live: &Live) -> Health {
        match self.trouble.lock().get(&live.key) {
            Some(Trouble::NeverReady) => Health::Unhealthy("it does not work".into()),
            _ => Health::Healthy(String::new()),
        }
    }
}

/// Keeps the last states, until it dies.
#[derive(Default)]
pub struct Shelf {
    pub state: State,
    /// Dies at this write; the state before it is what is left.
    pub dies_at: Option<usize>,
    kept: usize,
}

impl Shelf {
    pub fn of(state: &State, dies_at: Option<usize>) -> Self {
        Self { state: state.clone(), dies_at, kept: 0 }
    }
}

#[async_trait]
impl Keeper for Shelf {
    async fn keep(&mut self, state: &State) -> Result<(), Failure> {
        self.kept += 1;
        if Some(self.kept) == self.dies_at {
            return Err(Failure::new(Category::Conflict, "the process died"));
        }
        assert!(state.serial > self.state.serial, "every state has a serial of its own");
        self.state = state.clone();
        Ok(())
    }
}
