//! Services: an address of their own, kept for as long as they live.

use machinery::field::{self, Path};
use machinery::status::Status;
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
