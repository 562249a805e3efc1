//! PersistentVolumeClaims.

use serde_json::Value;

use super::{list, text};
use crate::field::{self, Path};
use crate::meta::names;
use crate::quantity::Quantity;
use crate::selector;
use crate::status::Cause;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub fn claim(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = spec(&object["spec"], &Path::new("spec"));
    if let Some(old) = old {
        causes.extend(changed(object, old));
    }
    causes
}

/// Also used for claims that Pods make for themselves.
pub fn spec(spec: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let modes = list(&spec["accessModes"]);
    let modes_path = path.child("accessModes");
    if modes.is_empty() {
        causes.push(field::required(&modes_path, "at least 1 access mode is required"));
    }
    if spec["selector"].is_object() {
        causes.extend(selector::validate_object(&spec["selector"], &path.child("selector")));
    }
    for mode in modes.iter().filter(|mode| !MODES.contains(&text(mode))) {
        causes.push(field::not_supported(&modes_path, mode, &MODES));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        causes.push(field::forbidden(&modes_path, "may not use ReadWriteOncePod with other access modes"));
    }
    let resources = path.child("resources");
    let storage_path = resources.key("storage");
    match spec["resources"]["requests"].get("storage") {
        None => causes.push(field::required(&storage_path, "")),
        Some(amount) if Quantity::from_value(amount).is_ok_and(|amount| amount.is_zero() || amount.is_negative()) => {
            causes.push(field::invalid(&storage_path, amount, "must be greater than zero"));
        }
        Some(_) => {}
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        causes.extend(super::named(&path.child("storageClassName"), class, names::dns1123_subdomain(class)));
    }
    causes
}

/// A claim hardly changes; a bound one may grow.
fn changed(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let bound = new["status"]["phase"] == "Bound";
    let (mut new_spec, mut old_spec) = (new["spec"].clone(), old["spec"].clone());
    let take = |spec: &mut Value, key: &str| spec.as_object_mut().and_then(|fields| fields.remove(key));
    if text(&old_spec["volumeName"]).is_empty() {
        take(&mut new_spec, "volumeName");
        take(&mut old_spec, "volumeName");
    }
    // A claim that named no class may be given one.
    if old_spec.get("storageClassName").is_none() {
        take(&mut new_spec, "storageClassName");
    }
    if bound {
        for spec in [&mut new_spec, &mut old_spec] {
            take(spec, "volumeAttributesClassName");
            if let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
                requests.remove("storage");
            }
        }
    }
    if new_spec != old_spec {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(field::forbidden(&Path::new("spec"), detail));
    }
    let size = |claim: &Value| {
        Quantity::from_value(&claim["spec"]["resources"]["requests"]["storage"]).unwrap_or(Quantity::ZERO)
    };
    let capacity = Quantity::from_value(&old["status"]["capacity"]["storage"]).unwrap_or(Quantity::ZERO);
    if size(new) < size(old) && size(new) <= capacity {
        let path = Path::new("spec.resources.requests.storage");
        causes.push(field::forbidden(&path, "field can not be less than status.capacity"));
    }
    causes.extend(field::immutable(&Path::new("volumeMode"), &new["spec"]["volumeMode"], &old["spec"]["volumeMode"]));
    causes
}
