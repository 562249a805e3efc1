//! Secrets: plain text in, base64 kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{Change, Hooks};

/// Hooks of Secrets.
pub struct Secret;

impl Hooks for Secret {
    fn convert(&self, change: &mut Change<'_>) {
        let Some(fields) = change.object.as_object_mut() else { return };
        if let Some(Value::Object(plain)) = fields.remove("stringData") {
            let data = fields.entry("data").or_insert_with(|| json!({}));
            if !data.is_object() {
                *data = json!({});
            }
            for (key, value) in plain {
                data[key] = BASE64.encode(value.as_str().unwrap_or_default()).into();
            }
        }
        if fields.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
            fields.insert("type".into(), json!("Opaque"));
        }
    }
}
