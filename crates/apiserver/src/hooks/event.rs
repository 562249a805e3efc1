//! Events: about something in their own namespace.

use machinery::field::{self, Path};
use machinery::status::Cause;
use serde_json::Value;

use super::Hooks;
use crate::object;

/// Hooks of Events of either group.
pub struct Event;

impl Hooks for Event {
    fn validate(&self, event: &Value, _old: Option<&Value>, _subresource: &str) -> Vec<Cause> {
        let name = if event.get("regarding").is_some() { "regarding" } else { "involvedObject" };
        let about = event[name]["namespace"].as_str().unwrap_or_default();
        let namespace = object::namespace(event);
        // Objects of the cluster are reported in `default`.
        let fits = about == namespace || (about.is_empty() && matches!(namespace, "default" | "kube-system"));
        if fits {
            return Vec::new();
        }
        let path = Path::new(name);
        vec![field::invalid_text(&path.child("namespace"), about, "does not match event.namespace")]
    }
}
