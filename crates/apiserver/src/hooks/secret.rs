//! Secrets and ConfigMaps: plain text in, base64 kept; immutable ones stay as they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use machinery::field::{self, Path};
use machinery::status::Cause;
use serde_json::{Value, json};

use super::{Change, Hooks};

/// Hooks of Secrets.
pub struct Secret;

/// Hooks of ConfigMaps.
pub struct ConfigMap;

const MAXIMUM: usize = 1024 * 1024;

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

    fn validate(&self, object: &Value, old: Option<&Value>, _subresource: &str) -> Vec<Cause> {
        let mut causes = keys(object, "data");
        causes.extend(size(object, &["data"]));
        if let Some(old) = old {
            causes.extend(field::immutable(&Path::new("type"), &object["type"], &old["type"]));
            causes.extend(frozen(object, old, &["data"]));
        }
        causes.extend(needed(object));
        causes
    }
}

/// Entries a type of Secret cannot do without.
fn needed(object: &Value) -> Vec<Cause> {
    let keys: &[&str] = match object["type"].as_str().unwrap_or_default() {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    let data = Path::new("data");
    keys.iter()
        .filter(|key| object["data"].get(**key).is_none())
        .map(|key| field::required(&data.key(key), ""))
        .collect()
}

impl Hooks for ConfigMap {
    fn validate(&self, object: &Value, old: Option<&Value>, _subresource: &str) -> Vec<Cause> {
        let mut causes = keys(object, "data");
        causes.extend(keys(object, "binaryData"));
        let both = object["binaryData"].as_object().into_iter().flatten();
        for (key, _) in both.filter(|(key, _)| object["data"].get(key.as_str()).is_some()) {
            let detail = "duplicate of key present in data";
            causes.push(field::invalid_text(&Path::new("binaryData").key(key), key, detail));
        }
        causes.extend(size(object, &["data", "binaryData"]));
        if let Some(old) = old {
            causes.extend(frozen(object, old, &["data", "binaryData"]));
        }
        causes
    }
}

fn keys(object: &Value, name: &str) -> Vec<Cause> {
    let base = Path::new(name);
    let entries = object[name].as_object().into_iter().flatten();
    let bad = |key: &String| {
        let allowed = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        key.is_empty() || key.len() > 253 || !allowed || key == "." || key.starts_with("..")
    };
    entries
        .filter(|(key, _)| bad(key))
        .map(|(key, _)| {
            let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', \
                          or 'KEY_NAME', or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            field::invalid_text(&base.key(key), key, detail)
        })
        .collect()
}

fn size(object: &Value, names: &[&str]) -> Option<Cause> {
    let entries = names.iter().flat_map(|name| object[*name].as_object().into_iter().flatten());
    let total: usize = entries.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    (total > MAXIMUM).then(|| field::too_long(&Path::new(""), MAXIMUM as u64))
}

/// `immutable: true` cannot be taken back, nor the data changed.
fn frozen(object: &Value, old: &Value, names: &[&str]) -> Vec<Cause> {
    if old["immutable"] != true {
        return Vec::new();
    }
    let detail = "field is immutable when `immutable` is set";
    let mut causes = Vec::new();
    if object["immutable"] != true {
        causes.push(field::forbidden(&Path::new("immutable"), detail));
    }
    let changed = names.iter().filter(|name| object.get(**name) != old.get(**name));
    causes.extend(changed.map(|name| field::forbidden(&Path::new(name), detail)));
    causes
}
