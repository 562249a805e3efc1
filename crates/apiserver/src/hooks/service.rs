//! Services: an address of their own, kept for as long as they live.

use machinery::field::{self, Path};
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use super::{Change, Hooks};
use crate::object;
use crate::server::ApiServer;

/// Hooks of Services.
pub struct Service;

impl Hooks for Service {
    fn convert(&self, change: &mut Change<'_>) {
        // An update that leaves the address out keeps it.
        if let Some(old) = change.old
            && has_address(change.object)
            && text(&change.object["spec"]["clusterIP"]).is_empty()
            && has_address(old)
        {
            for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                object::put(&mut change.object["spec"], name, old["spec"].get(name).cloned());
            }
        }
    }

    fn reserve(&self, change: &mut Change<'_>) -> Result<(), Status> {
        if !change.subresource.is_empty() {
            return Ok(());
        }
        let spec = &change.object["spec"];
        if !has_address(change.object) {
            if let Some(spec) = change.object["spec"].as_object_mut() {
                for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                    spec.remove(name);
                }
            }
            return Ok(());
        }
        let wanted = text(&spec["clusterIP"]).to_owned();
        let kept = change.old.is_some_and(|old| text(&old["spec"]["clusterIP"]) == wanted && !wanted.is_empty());
        let address = match wanted.as_str() {
            "None" => "None".to_owned(),
            _ if kept => wanted,
            wanted => {
                let owner = owner(change.object);
                change.server.addresses().reserve(wanted, &owner, change.dry_run).map_err(|why| {
                    let spec = Path::new("spec");
                    let cause = field::invalid_text(&spec.child("clusterIPs").index(0), wanted, &why);
                    Status::invalid("", "Service", object::name(change.object), vec![cause])
                })?
            }
        };
        let spec = &mut change.object["spec"];
        spec["clusterIP"] = json!(address);
        spec["clusterIPs"] = json!([address]);
        spec["ipFamilies"] = json!(["IPv4"]);
        spec["ipFamilyPolicy"] = json!("SingleStack");
        Ok(())
    }

    fn validate(&self, service: &Value, old: Option<&Value>, subresource: &str) -> Vec<Cause> {
        if !subresource.is_empty() {
            return Vec::new();
        }
        let mut causes = Vec::new();
        let (path, spec) = (Path::new("spec"), &service["spec"]);
        let headless = text(&spec["clusterIP"]) == "None";
        let external = spec["type"] == "ExternalName";
        let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
        if ports.is_empty() && !headless && !external {
            causes.push(field::required(&path.child("ports"), ""));
        }
        if external && text(&spec["externalName"]).is_empty() {
            causes.push(field::required(&path.child("externalName"), ""));
        }
        let list = path.child("ports");
        for (index, port) in ports.iter().enumerate() {
            let here = list.index(index);
            if ports.len() > 1 && text(&port["name"]).is_empty() {
                causes.push(field::required(&here.child("name"), ""));
            }
            if !port["port"].as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
                let detail = "must be between 1 and 65535, inclusive";
                causes.push(field::invalid(&here.child("port"), &port["port"], detail));
            }
            let alike = |other: &Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
            if ports[..index].iter().any(alike) {
                let pair = json!({ "port": port["port"], "protocol": port["protocol"] });
                causes.push(field::duplicate(&here, &pair));
            }
        }
        if let Some(old) = old.filter(|old| has_address(old) && has_address(service)) {
            let (before, after) = (&old["spec"]["clusterIP"], &spec["clusterIP"]);
            if !text(before).is_empty() {
                let ips = path.child("clusterIPs");
                causes.extend(field::immutable(&ips.index(0), after, before));
            }
        }
        causes
    }

    fn abandoned(&self, server: &ApiServer, service: &Value) {
        let key = store::Key::new("/services", object::namespace(service), object::name(service));
        let address = text(&service["spec"]["clusterIP"]);
        // Whoever was faster may have asked for the same address by name; then it is theirs.
        let kept = server.store().get(&key).map(|entry| object::parse(&entry.value));
        if kept.is_none_or(|other| text(&other["spec"]["clusterIP"]) != address) {
            server.addresses().release(address, &owner(service));
        }
    }

    fn written(&self, server: &ApiServer, service: &Value, deleted: bool) {
        if deleted {
            server.addresses().release(text(&service["spec"]["clusterIP"]), &owner(service));
        }
    }
}

/// Whether a Service of this type has an address of its own.
fn has_address(service: &Value) -> bool {
    service["spec"]["type"] != "ExternalName"
}

fn owner(service: &Value) -> String {
    format!("{}/{}", object::namespace(service), object::name(service))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
