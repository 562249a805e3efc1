//! Containers of Pods.

use std::collections::HashSet;

use serde_json::Value;

use super::{list, named, not_negative, port, text};
use crate::field::{self, Path};
use crate::meta::names;
use crate::quantity::Quantity;
use crate::status::Cause;

/// Which list of the Pod a container is in.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Regular,
    Init,
    Ephemeral,
}

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

pub fn container(container: &Value, kind: Kind, volumes: &HashSet<&str>, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let name = text(&container["name"]);
    let name_path = path.child("name");
    if !name.is_empty() {
        causes.extend(named(&name_path, name, names::dns1123_label(name)));
    } else if container.get("name").is_some() {
        causes.push(field::required(&name_path, ""));
    }
    if text(&container["image"]).is_empty() {
        causes.push(field::required(&path.child("image"), ""));
    }
    check_ports(container, &path.child("ports"), causes);
    check_environment(container, path, causes);
    check_mounts(container, volumes, &path.child("volumeMounts"), causes);
    check_resources(&container["resources"], &path.child("resources"), causes);
    check_lifecycle(container, kind, path, causes);
}

fn check_ports(container: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for (index, entry) in list(&container["ports"]).iter().enumerate() {
        let path = path.index(index);
        let name = text(&entry["name"]);
        let name_path = path.child("name");
        if !name.is_empty() {
            let problems = names::port_name(name);
            if problems.is_empty() && !seen.insert(name) {
                causes.push(field::duplicate(&name_path, &entry["name"]));
            }
            causes.extend(named(&name_path, name, problems));
        }
        let number_path = path.child("containerPort");
        match entry["containerPort"].as_i64() {
            Some(0) => causes.push(field::required(&number_path, "")),
            Some(number) => causes.extend(
                names::port_number(number).iter().map(|problem| field::invalid(&number_path, &number.into(), problem)),
            ),
            None => {}
        }
        if let Some(number) = entry["hostPort"].as_i64().filter(|number| *number != 0) {
            let path = path.child("hostPort");
            causes.extend(
                names::port_number(number).iter().map(|problem| field::invalid(&path, &number.into(), problem)),
            );
        }
    }
}

fn check_environment(container: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let variables = path.child("env");
    for (index, variable) in list(&container["env"]).iter().enumerate() {
        let path = variables.index(index);
        let name = text(&variable["name"]);
        let name_path = path.child("name");
        if !name.is_empty() {
            causes.extend(named(&name_path, name, names::environment_name(name)));
        } else if variable.get("name").is_some() {
            causes.push(field::required(&name_path, ""));
        }
        if variable["valueFrom"].is_object() {
            value_from(variable, &path.child("valueFrom"), causes);
        }
    }
    let sources = path.child("envFrom");
    for (index, source) in list(&container["envFrom"]).iter().enumerate() {
        let path = sources.index(index);
        let prefix = text(&source["prefix"]);
        if !prefix.is_empty() {
            causes.extend(named(&path.child("prefix"), prefix, names::environment_name(prefix)));
        }
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|key| source[*key].is_object()).collect();
        for key in &given {
            if text(&source[*key]["name"]).is_empty() {
                causes.push(field::required(&path.child(key).child("name"), ""));
            }
        }
        match given.len() {
            0 => causes.push(field::invalid_text(&sources, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => causes.push(field::invalid_text(&sources, "", "may not have more than one field specified at a time")),
        }
    }
}

fn value_from(variable: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let from = &variable["valueFrom"];
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given: Vec<&str> = kinds.into_iter().filter(|key| from[*key].is_object()).collect();
    for key in given.iter().filter(|key| key.ends_with("KeyRef") && **key != "fileKeyRef") {
        let path = path.child(key);
        let object = text(&from[*key]["name"]);
        causes.extend(named(&path.child("name"), object, names::dns1123_subdomain(object)));
        match from[*key]["key"].as_str() {
            Some("") => causes.push(field::required(&path.child("key"), "")),
            Some(name) => causes.extend(named(&path.child("key"), name, names::config_key(name))),
            None => {}
        }
    }
    if given.is_empty() {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        causes.push(field::invalid_text(path, "", detail));
    } else if !text(&variable["value"]).is_empty() {
        causes.push(field::invalid_text(path, "", "may not be specified when `value` is not empty"));
    } else if given.len() > 1 {
        causes.push(field::invalid_text(path, "", "may not have more than one field specified at a time"));
    }
}

fn check_mounts(container: &Value, volumes: &HashSet<&str>, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for (index, mount) in list(&container["volumeMounts"]).iter().enumerate() {
        let entry = path.index(index);
        let name = text(&mount["name"]);
        if name.is_empty() && mount.get("name").is_some() {
            causes.push(field::required(&entry.child("name"), ""));
        }
        if !volumes.contains(name) {
            causes.push(field::not_found(&entry.child("name"), &name.into()));
        }
        let place = text(&mount["mountPath"]);
        if place.is_empty() && mount.get("mountPath").is_some() {
            causes.push(field::required(&entry.child("mountPath"), ""));
        }
        if !seen.insert(place) {
            causes.push(field::invalid_text(&entry.child("mountPath"), place, "must be unique"));
        }
        causes.extend(relative_path(text(&mount["subPath"]), &path.child("subPath")));
        let expression = text(&mount["subPathExpr"]);
        if !expression.is_empty() && !text(&mount["subPath"]).is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            causes.push(field::invalid_text(&entry.child("subPathExpr"), expression, detail));
        }
        causes.extend(relative_path(expression, &path.child("subPathExpr")));
    }
}

/// A path that stays below where it starts.
pub fn relative_path(given: &str, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if given.starts_with('/') {
        causes.push(field::invalid_text(path, given, "must be a relative path"));
    }
    if given.split('/').any(|part| part == "..") {
        causes.push(field::invalid_text(path, given, "must not contain '..'"));
    }
    causes
}

fn check_resources(resources: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    for key in ["limits", "requests"] {
        let path = path.child(key);
        for (name, amount) in resources[key].as_object().into_iter().flatten() {
            let entry = path.key(name);
            if Quantity::from_value(amount).is_ok_and(|amount| amount.is_negative()) {
                causes.push(field::invalid(&entry, amount, "must be greater than or equal to 0"));
            }
            let standard =
                ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) || name.starts_with("hugepages-");
            if !standard && !name.contains('/') {
                causes.push(field::invalid_text(&entry, name, "must be a standard resource type or fully qualified"));
                causes.push(field::invalid_text(&entry, name, "must be a standard resource for containers"));
            }
        }
    }
    let requests_path = path.child("requests");
    for (name, amount) in resources["requests"].as_object().into_iter().flatten() {
        let Some(limit) = resources["limits"].get(name) else { continue };
        if let (Ok(request), Ok(limit)) = (Quantity::from_value(amount), Quantity::from_value(limit))
            && request > limit
        {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            causes.push(field::invalid(&requests_path, amount, &detail));
        }
    }
}

fn check_lifecycle(container: &Value, kind: Kind, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
    let stays = kind == Kind::Regular || (kind == Kind::Init && container["restartPolicy"] == "Always");
    if !stays {
        let detail = match kind {
            Kind::Ephemeral => "cannot be set for an Ephemeral Container",
            _ => "may not be set for init containers without restartPolicy=Always",
        };
        for key in ["lifecycle"].into_iter().chain(probes).filter(|key| container[*key].is_object()) {
            causes.push(field::forbidden(&path.child(key), detail));
        }
        return;
    }
    let lifecycle = path.child("lifecycle");
    for hook in ["postStart", "preStop"] {
        if container["lifecycle"][hook].is_object() {
            check_handler(&container["lifecycle"][hook], &lifecycle.child(hook), causes);
        }
    }
    for key in probes {
        if container[key].is_object() {
            check_probe(&container[key], key == "readinessProbe", &path.child(key), causes);
        }
    }
}

fn check_probe(probe: &Value, may_need_more: bool, path: &Path<'_>, causes: &mut Vec<Cause>) {
    check_handler(probe, path, causes);
    for key in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        causes.extend(not_negative(&probe[key], &path.child(key)));
    }
    let grace = &probe["terminationGracePeriodSeconds"];
    let grace_path = path.child("terminationGracePeriodSeconds");
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.push(field::invalid(&grace_path, grace, "must be greater than 0"));
    }
    if may_need_more && grace.is_i64() {
        causes.push(field::invalid(&grace_path, grace, "must not be set for readinessProbes"));
    }
    if !may_need_more && probe["successThreshold"].as_i64().is_some_and(|count| count != 1) {
        causes.push(field::invalid(&path.child("successThreshold"), &probe["successThreshold"], "must be 1"));
    }
}

fn check_handler(handler: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let given: Vec<&str> = HANDLERS.into_iter().filter(|key| handler[*key].is_object()).collect();
    for key in given.iter().skip(1) {
        causes.push(field::forbidden(&path.child(key), "may not specify more than 1 handler type"));
    }
    let Some(first) = given.first() else {
        causes.push(field::required(path, "must specify a handler type"));
        return;
    };
    let action = &handler[*first];
    let path = path.child(first);
    match *first {
        "exec" if list(&action["command"]).is_empty() => causes.push(field::required(&path.child("command"), "")),
        "httpGet" => {
            causes.extend(port(&action["port"], &path.child("port")));
            for header in list(&action["httpHeaders"]) {
                let name = text(&header["name"]);
                causes.extend(named(&path.child("httpHeaders"), name, names::header_name(name)));
            }
        }
        "tcpSocket" => causes.extend(port(&action["port"], &path.child("port"))),
        "grpc" => {
            let problems = names::port_number(action["port"].as_i64().unwrap_or(0));
            causes.extend(problems.iter().map(|problem| field::invalid(&path.child("port"), &action["port"], problem)));
        }
        _ => {}
    }
}
