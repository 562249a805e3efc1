//! Which objects of a list or watch a client wants: label and field selectors over stored bytes.

use std::borrow::Cow;

use machinery::selector::{FieldSelector, LabelSelector, field_text};
use machinery::status::Status;
use serde::Deserialize;
use serde_json::{Map, Value};
use store::Entry;

use crate::call::Call;
use crate::kinds::Kind;
use crate::request::Query;

/// A compiled selection. Empty selectors cost nothing.
pub struct Selection {
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
}

/// The part of a stored object that label selectors look at.
#[derive(Deserialize)]
struct Labelled {
    metadata: LabelledMetadata,
}

#[derive(Deserialize)]
struct LabelledMetadata {
    #[serde(default)]
    labels: Map<String, Value>,
}

impl Selection {
    /// Reads both selectors of a query; field names must be ones the kind can select by.
    pub fn read(kind: &Kind, query: &Query) -> Result<Self, Status> {
        let labels = match query.label_selector.as_str() {
            "" => None,
            text => Some(LabelSelector::parse(text).map_err(|error| Status::bad_request(error.to_string()))?),
        };
        let fields = match query.field_selector.as_str() {
            "" => None,
            text => Some(FieldSelector::parse(text).map_err(|error| Status::bad_request(error.to_string()))?),
        };
        let mut known = vec!["metadata.name", "metadata.namespace"];
        known.extend(kind.selectable.iter().map(String::as_str));
        if let Some(field) = fields.as_ref().and_then(|fields| fields.unsupported(&known)) {
            if kind.custom {
                return Err(Status::bad_request(format!("field label not supported: {field}")));
            }
            let list: Vec<String> = known.iter().map(|known| format!("\"{known}\"")).collect();
            let list = list.join(", ");
            return Err(Status::bad_request(format!("\"{field}\" is not a known field selector: only {list}")));
        }
        Ok(Self { labels, fields })
    }

    /// Whether nothing is filtered.
    pub fn everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }

    /// Whether a stored object is wanted.
    pub fn matches(&self, call: &Call, entry: &Entry) -> bool {
        if let Some(labels) = &self.labels {
            let Ok(object) = serde_json::from_slice::<Labelled>(&entry.value) else { return false };
            if !labels.matches(&object.metadata.labels) {
                return false;
            }
        }
        self.fields.as_ref().is_none_or(|fields| matches_fields(fields, call, entry))
    }
}

fn matches_fields(fields: &FieldSelector, call: &Call, entry: &Entry) -> bool {
    // Names are in the key; anything else takes the object apart, once.
    let value = std::cell::OnceCell::new();
    fields.matches(|field| match field {
        "metadata.name" => Some(Cow::Borrowed(entry.key.name.as_str())),
        "metadata.namespace" => Some(Cow::Borrowed(entry.key.namespace.as_str())),
        field => Some(select(value.get_or_init(|| call.value(entry)), field).into_owned().into()),
    })
}

/// The value of a dotted path as field selectors compare it. Absent is the empty string.
fn select<'a>(value: &'a Value, field: &str) -> Cow<'a, str> {
    // `source` selects by the component; the booleans compare as such also when unset.
    let path = if field == "source" { "source.component" } else { field };
    let unset = if matches!(field, "spec.unschedulable" | "spec.hostNetwork") { "false" } else { "" };
    field_text(value, path).unwrap_or(Cow::Borrowed(unset))
}
