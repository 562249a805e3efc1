//! Reading a stored object in another served version.

use serde_json::{Map, Value};

/// How stored objects become a served version's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Stored as served.
    Same,
    /// Same fields, other apiVersion (custom resources with strategy `None`).
    Relabel,
    /// `events.k8s.io/v1` over core events, which name the same facts differently.
    Events,
}

/// Core event field, `events.k8s.io` field.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

impl Conversion {
    /// Stored to served.
    pub fn read(self, api_version: &str, object: &mut Value) {
        self.convert(api_version, object, |(stored, served)| (stored, served));
    }

    /// Served to stored.
    pub fn write(self, api_version: &str, object: &mut Value) {
        self.convert(api_version, object, |(stored, served)| (served, stored));
    }

    fn convert(
        self,
        api_version: &str,
        object: &mut Value,
        direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
    ) {
        let Some(fields) = object.as_object_mut() else { return };
        if self == Self::Same {
            return;
        }
        fields.insert("apiVersion".into(), api_version.into());
        if self == Self::Events {
            for pair in EVENT_FIELDS {
                let (from, to) = direction(pair);
                rename(fields, from, to);
            }
            // Required by the one, left out when empty by the other.
            for field in ["reportingController", "reportingInstance"] {
                if fields.get(field).is_some_and(|value| value == "") {
                    fields.remove(field);
                }
            }
        }
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.into(), value);
    }
}
