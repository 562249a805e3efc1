//! Server-side apply.

mod conflicts;
mod fields;
mod lists;
mod managers;
mod properties;
mod schemas;

use machinery::apply::{Kind, Writer, apply, update};
use machinery::schema::Schema;
use machinery::status::Status;
use serde_json::{Value, json};

pub const NOW: &str = "2026-01-02T03:04:05Z";
pub const LATER: &str = "2026-01-02T03:05:00Z";

/// A kind with its live object, driven as the API server drives it.
pub struct Plane {
    pub schema: Schema,
    pub live: Option<Value>,
    pub now: &'static str,
}

impl Plane {
    pub fn new(schema: Schema) -> Self {
        Self { schema, live: None, now: NOW }
    }

    pub fn kind<'a>(&'a self, subresource: &'a str) -> Kind<'a> {
        let ignored: &[&[&str]] = if subresource.is_empty() { &[&["status"]] } else { &[&["metadata"], &["spec"]] };
        Kind {
            schema: &self.schema,
            api_version: "apps/v1",
            kind: "Deployment",
            other_versions: &[],
            subresource,
            ignored,
        }
    }

    pub fn try_apply(&mut self, manager: &str, config: Value, force: bool) -> Result<&Value, Status> {
        let writer = Writer { manager, now: self.now };
        let merged = apply(&self.kind(""), self.live.as_ref(), &complete(config), writer, force)?;
        self.live = Some(merged);
        Ok(self.live())
    }

    pub fn apply(&mut self, manager: &str, config: Value) -> &Value {
        self.try_apply(manager, config, false).unwrap()
    }

    pub fn update(&mut self, manager: &str, object: Value) -> &Value {
        self.update_at("", manager, complete(object))
    }

    pub fn update_at(&mut self, subresource: &str, manager: &str, object: Value) -> &Value {
        let writer = Writer { manager, now: self.now };
        let live = update(&self.kind(subresource), self.live.as_ref(), object, writer);
        self.live = Some(live);
        self.live()
    }

    pub fn live(&self) -> &Value {
        self.live.as_ref().unwrap()
    }

    /// The fields of a manager.
    pub fn owned(&self, manager: &str) -> Value {
        let entry = self.entries().iter().find(|entry| entry["manager"] == manager).cloned();
        entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }

    pub fn entries(&self) -> &[Value] {
        self.live()["metadata"]["managedFields"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The object without its managers.
    pub fn object(&self) -> Value {
        let mut object = self.live().clone();
        let object = object.as_object_mut().unwrap();
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        json!(object)
    }
}

/// Adds what every object has.
fn complete(mut object: Value) -> Value {
    object["apiVersion"] = json!("apps/v1");
    object["kind"] = json!("Deployment");
    object["metadata"]["name"] = json!("web");
    object
}
