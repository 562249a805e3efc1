//! JSON Schema of a message, as protobuf writes messages in JSON.

use std::collections::BTreeSet;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// The schema of a message. Messages in it are referred to, so that one may contain itself.
pub(super) fn of(message: &MessageDescriptor) -> Value {
    if let Some(known) = well_known(message.full_name()) {
        return known;
    }
    let mut parts = Parts::default();
    let mut schema = parts.object(message);
    let mut definitions = Map::new();
    while let Some(message) = parts.next.pop() {
        let inner = parts.object(&message);
        definitions.insert(message.full_name().to_owned(), inner);
    }
    if !definitions.is_empty() {
        schema["$defs"] = definitions.into();
    }
    schema
}

/// Messages that are referred to.
#[derive(Default)]
struct Parts {
    seen: BTreeSet<String>,
    next: Vec<MessageDescriptor>,
}

impl Parts {
    fn object(&mut self, message: &MessageDescriptor) -> Value {
        let properties: Map<String, Value> =
            message.fields().map(|field| (field.json_name().to_owned(), self.field(&field))).collect();
        let required: Vec<String> =
            message.fields().filter(FieldDescriptor::is_required).map(|field| field.json_name().to_owned()).collect();
        let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
            let values = self.kind(&entry.map_entry_value_field().kind());
            return json!({ "type": "object", "additionalProperties": values });
        }
        let one = self.kind(&field.kind());
        if field.is_list() { json!({ "type": "array", "items": one }) } else { one }
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Double | Kind::Float => json!({ "type": ["number", "string"] }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer" }),
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0 }),
            // Too large for numbers of JavaScript, and so written as text.
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => json!({ "type": ["integer", "string"] }),
            Kind::Uint64 | Kind::Fixed64 => json!({ "type": ["integer", "string"], "minimum": 0 }),
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Enum(known) => {
                let names: Vec<String> = known.values().map(|value| value.name().to_owned()).collect();
                if known.full_name() == "google.protobuf.NullValue" { json!({}) } else { json!({ "enum": names }) }
            }
            Kind::Message(message) => well_known(message.full_name()).unwrap_or_else(|| {
                if self.seen.insert(message.full_name().to_owned()) {
                    self.next.push(message.clone());
                }
                json!({ "$ref": format!("#/$defs/{}", message.full_name()) })
            }),
        }
    }
}

/// Messages that have a form of their own in JSON.
fn well_known(name: &str) -> Option<Value> {
    let short = name.strip_prefix("google.protobuf.")?;
    Some(match short {
        "Timestamp" => json!({ "type": "string", "format": "date-time" }),
        "Duration" => json!({ "type": "string", "description": "seconds, such as 1.5s" }),
        "FieldMask" | "StringValue" | "BytesValue" => json!({ "type": "string" }),
        "Struct" | "Any" | "Empty" => json!({ "type": "object" }),
        "ListValue" => json!({ "type": "array" }),
        "Value" => json!({}),
        "BoolValue" => json!({ "type": "boolean" }),
        "DoubleValue" | "FloatValue" => json!({ "type": ["number", "string"] }),
        "Int32Value" | "UInt32Value" => json!({ "type": "integer" }),
        "Int64Value" | "UInt64Value" => json!({ "type": ["integer", "string"] }),
        _ => return None,
    })
}
