//! ConfigMaps and Secrets.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::text;
use crate::field::{self, Path};
use crate::meta::names;
use crate::status::Cause;

/// Most that one of them may hold, in bytes.
const MAX_SIZE: usize = 1024 * 1024;
const LOCKED: &str = "field is immutable when `immutable` is set";

fn entries<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    object.get(key).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn check_keys(object: &Value, key: &'static str) -> Vec<Cause> {
    let path = Path::new(key);
    let mut causes = Vec::new();
    for (name, _) in entries(object, key) {
        causes
            .extend(names::config_key(name).iter().map(|problem| field::invalid_text(&path.key(name), name, problem)));
    }
    causes
}

fn decoded_size(value: &Value) -> usize {
    base64::engine::general_purpose::STANDARD.decode(text(value)).map_or(0, |bytes| bytes.len())
}

fn locked(new: &Value, old: Option<&Value>, parts: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return causes };
    if new["immutable"] != true {
        causes.push(field::forbidden(&Path::new("immutable"), LOCKED));
    }
    for part in parts.iter().filter(|part| new.get(**part) != old.get(**part)) {
        causes.push(field::forbidden(&Path::new(part), LOCKED));
    }
    causes
}

pub fn config_map(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = locked(object, old, &["data", "binaryData"]);
    causes.extend(check_keys(object, "data"));
    let data = Path::new("data");
    for (name, _) in entries(object, "data").filter(|(name, _)| object["binaryData"].get(name.as_str()).is_some()) {
        causes.push(field::invalid_text(&data.key(name), name, "duplicate of key present in binaryData"));
    }
    causes.extend(check_keys(object, "binaryData"));
    let size: usize = entries(object, "data").map(|(_, value)| text(value).len()).sum::<usize>()
        + entries(object, "binaryData").map(|(_, value)| decoded_size(value)).sum::<usize>();
    if size > MAX_SIZE {
        causes.push(field::too_long(&Path::new(""), MAX_SIZE as u64));
    }
    causes
}

pub fn secret(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(old) = old {
        causes.extend(field::immutable(&Path::new("type"), &object["type"], &old["type"]));
    }
    causes.extend(locked(object, old, &["data"]));
    causes.extend(check_keys(object, "data"));
    let data = Path::new("data");
    if entries(object, "data").map(|(_, value)| decoded_size(value)).sum::<usize>() > MAX_SIZE {
        causes.push(field::too_long(&data, MAX_SIZE as u64));
    }
    let has = |key: &str| object["data"].get(key).is_some();
    let need = |key: &str| field::required(&data.key(key), "");
    match text(&object["type"]) {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if text(&object["metadata"]["annotations"][annotation]).is_empty() {
                causes.push(field::required(&Path::new("metadata.annotations").key(annotation), ""));
            }
        }
        "kubernetes.io/dockercfg" => causes.extend(docker_config(object, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => causes.extend(docker_config(object, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            causes.extend([need("username"), need("password")]);
        }
        "kubernetes.io/ssh-auth" if !has("ssh-privatekey") => causes.push(need("ssh-privatekey")),
        "kubernetes.io/tls" => causes.extend(["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).map(need)),
        _ => {}
    }
    causes
}

/// Must be there and be JSON. What is wrong inside is not shown: it is a secret.
fn docker_config(object: &Value, key: &str) -> Option<Cause> {
    let data = Path::new("data");
    let path = data.key(key);
    let Some(value) = object["data"].get(key) else { return Some(field::required(&path, "")) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text(value)).unwrap_or_default();
    if serde_json::from_slice::<Map<String, Value>>(&bytes).is_ok() {
        return None;
    }
    let detail = match String::from_utf8_lossy(&bytes).trim_start().chars().next() {
        Some(first) if first != '{' => format!("invalid character '{first}' looking for beginning of value"),
        _ => "unexpected end of JSON input".to_owned(),
    };
    Some(field::invalid_text(&path, "<secret contents redacted>", &detail))
}
