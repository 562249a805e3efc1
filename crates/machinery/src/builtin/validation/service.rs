//! Services.

use std::collections::HashSet;

use serde_json::Value;

use super::{list, text};
use crate::field::{self, Path};
use crate::meta::{self, names};
use crate::status::Cause;

pub fn service(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &object["spec"];
    let path = Path::new("spec");
    let mut causes = Vec::new();
    let kind = text(&spec["type"]);
    let headless = spec["clusterIP"] == "None";
    let ports_path = path.child("ports");
    if list(&spec["ports"]).is_empty() && !headless && kind != "ExternalName" {
        causes.push(field::required(&ports_path, ""));
    }
    match kind {
        "ExternalName" => external_name(spec, &path, &mut causes),
        "LoadBalancer" if headless => {
            let detail = "may not be set to 'None' for LoadBalancer services";
            causes.push(field::invalid_text(&path.child("clusterIPs").index(0), "None", detail));
        }
        "NodePort" if headless => {
            let detail = "may not be set to 'None' for NodePort services";
            causes.push(field::invalid_text(&path.child("clusterIPs").index(0), "None", detail));
        }
        _ => {}
    }
    check_ports(spec, &ports_path, &mut causes);
    if spec["selector"].is_object() {
        causes.extend(meta::validate_labels(spec.get("selector"), &path.child("selector")));
    }
    if spec["sessionAffinity"] == "ClientIP" {
        let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
        if seconds.as_i64().is_some_and(|seconds| !(1..=86400).contains(&seconds)) {
            let path = Path::new("spec.sessionAffinityConfig.clientIP.timeoutSeconds");
            causes.push(field::invalid(&path, seconds, "must be greater than 0 and less than 86400"));
        }
    }
    if let Some(old) = old {
        causes.extend(kept_address(spec, &old["spec"]));
    }
    causes
}

fn external_name(spec: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let name_path = path.child("externalName");
    let name = text(&spec["externalName"]);
    if name.is_empty() {
        causes.push(field::required(&name_path, ""));
    } else {
        causes.extend(super::named(&name_path, name, names::dns1123_subdomain(name.trim_end_matches('.'))));
    }
    if !text(&spec["clusterIP"]).is_empty() {
        causes.push(field::forbidden(&path.child("clusterIPs"), "may not be set for ExternalName services"));
    }
}

fn check_ports(spec: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let ports = list(&spec["ports"]);
    let mut seen_names = HashSet::new();
    let mut seen_ports = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(&port["name"]);
        let name_path = path.child("name");
        if name.is_empty() {
            if ports.len() > 1 {
                causes.push(field::required(&name_path, ""));
            }
        } else {
            causes.extend(super::named(&name_path, name, names::dns1123_label(name)));
            if !seen_names.insert(name) {
                causes.push(field::duplicate(&name_path, &port["name"]));
            }
        }
        let number = port["port"].as_i64().unwrap_or(0);
        let problems = names::port_number(number);
        causes.extend(problems.iter().map(|problem| field::invalid(&path.child("port"), &number.into(), problem)));
        causes.extend(super::port(&port["targetPort"], &path.child("targetPort")));
        if let Some(protocol) = port["appProtocol"].as_str() {
            causes.extend(super::named(&path.child("appProtocol"), protocol, names::label_key(protocol)));
        }
        if text(&spec["type"]) == "ClusterIP" && port["nodePort"].as_i64().is_some_and(|port| port != 0) {
            causes.push(field::forbidden(&path.child("nodePort"), "may not be used when `type` is 'ClusterIP'"));
        }
        if !seen_ports.insert((text(&port["protocol"]), number)) {
            let protocol = field::json(&port["protocol"]);
            let printed = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
            );
            causes.push(field::duplicate_printed(&path, &printed));
        }
    }
}

/// An address stays with a Service for life, unless it turns into or from a name elsewhere.
fn kept_address(new: &Value, old: &Value) -> Vec<Cause> {
    let addressed = |spec: &Value| spec["type"] != "ExternalName" && !text(&spec["clusterIP"]).is_empty();
    if !addressed(old) || new["type"] == "ExternalName" || new["clusterIP"] == old["clusterIP"] {
        return Vec::new();
    }
    let spec = Path::new("spec");
    let path = spec.child("clusterIPs");
    vec![field::invalid(&path.index(0), &serde_json::json!([new["clusterIP"]]), "may not change once set")]
}
