//! CustomResourceDefinitions: checked as a whole, served as soon as they are stored.

use machinery::field::{self, Path};
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use super::{Change, Hooks};
use crate::crd::{self, conditions};
use crate::object;
use crate::server::ApiServer;

/// Hooks of CustomResourceDefinitions.
pub struct Definition;

/// Groups that belong to the Kubernetes project.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];
const APPROVAL: &str = "api-approved.kubernetes.io";

impl Hooks for Definition {
    fn convert(&self, change: &mut Change<'_>) {
        let spec = &mut change.object["spec"];
        if !spec.is_object() {
            return;
        }
        let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
        if spec["names"].is_object() {
            let names = &mut spec["names"];
            if names["singular"].as_str().unwrap_or_default().is_empty() {
                names["singular"] = kind.to_lowercase().into();
            }
            if names["listKind"].as_str().unwrap_or_default().is_empty() {
                names["listKind"] = format!("{kind}List").into();
            }
        }
        if spec["conversion"].is_null() {
            spec["conversion"] = json!({ "strategy": "None" });
        }
        if spec.get("preserveUnknownFields").is_some_and(|value| value == false || value.is_null()) {
            object::put(spec, "preserveUnknownFields", None);
        }
    }

    fn prepare(&self, change: &mut Change<'_>) -> Result<(), Status> {
        if change.subresource == "status" {
            return Ok(());
        }
        if change.old.is_none() {
            let mut finalizers = object::finalizers(change.object);
            if !finalizers.iter().any(|finalizer| finalizer == crd::FINALIZER) {
                finalizers.push(crd::FINALIZER.into());
            }
            object::set_finalizers(change.object, &finalizers);
        }
        if change.object["spec"]["names"].is_object() {
            conditions::judge(&change.server.kinds().table(), change.object);
        }
        Ok(())
    }

    fn validate(&self, definition: &Value, old: Option<&Value>, subresource: &str) -> Vec<Cause> {
        if subresource == "status" {
            return stored_versions(definition);
        }
        let mut causes = names(definition);
        causes.extend(versions(definition));
        causes.extend(stored_versions(definition));
        if let Some(old) = old {
            causes.extend(unchanged(definition, old));
        }
        causes
    }

    fn deleting(&self, definition: &mut Value) {
        let message = "CustomResource deletion is in progress";
        conditions::set(definition, "Terminating", true, "InstanceDeletionPending", message);
    }

    fn written(&self, server: &ApiServer, definition: &Value, deleted: bool) {
        crd::install(server, definition, deleted);
    }
}

fn names(definition: &Value) -> Vec<Cause> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let path = Path::new("spec");
    let mut causes = Vec::new();
    let expected = format!("{plural}.{group}");
    let name = object::name(definition);
    if name != expected {
        let metadata = Path::new("metadata");
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(field::invalid_text(&metadata.child("name"), name, detail));
    }
    if group.is_empty() {
        causes.push(field::required(&path.child("group"), ""));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        causes.push(field::invalid_text(&path.child("group"), &group, detail));
    }
    let protected = PROTECTED.iter().any(|one| group == *one || group.ends_with(&format!(".{one}")));
    if protected && object::metadata(definition).get("annotations").and_then(|all| all.get(APPROVAL)).is_none() {
        let metadata = Path::new("metadata");
        let annotations = metadata.child("annotations");
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                      https://github.com/kubernetes/enhancements/pull/1111";
        causes.push(field::required(&annotations.key(APPROVAL), detail));
    }
    let list = path.child("names");
    for part in ["plural", "singular", "kind", "listKind"] {
        let value = text(&spec["names"][part]);
        let here = list.child(part);
        if value.is_empty() {
            causes.push(field::required(&here, ""));
            continue;
        }
        let lower = value.to_lowercase();
        let problems = machinery::meta::names::dns1035_label(if part.ends_with("ind") { &lower } else { &value });
        causes.extend(problems.iter().map(|problem| field::invalid_text(&here, &value, problem)));
    }
    causes
}

fn versions(definition: &Value) -> Vec<Cause> {
    let spec = &definition["spec"];
    let path = Path::new("spec");
    let list = path.child("versions");
    let all = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let mut causes = Vec::new();
    if all.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(field::invalid(&list, &spec["versions"], detail));
    }
    for (index, version) in all.iter().enumerate() {
        let here = list.index(index);
        let name = version["name"].as_str().unwrap_or_default();
        let problems = machinery::meta::names::dns1035_label(name);
        causes.extend(problems.iter().map(|problem| field::invalid_text(&here.child("name"), name, problem)));
        if all[..index].iter().any(|other| other["name"] == version["name"]) {
            causes.push(field::duplicate(&here.child("name"), &version["name"]));
        }
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let schema = here.child("schema");
            causes.push(field::required(&schema.child("openAPIV3Schema"), "schemas are required"));
            continue;
        }
        causes.extend(crd::compile(version, &here).err().into_iter().flatten());
        causes.extend(columns(version, &here));
    }
    let conversion = path.child("conversion");
    match spec["conversion"]["strategy"].as_str() {
        Some("None") => {}
        Some("Webhook") => causes.push(field::forbidden(
            &conversion.child("strategy"),
            "conversion webhooks are not served; keep one version or versions with the same fields (strategy None)",
        )),
        _ => causes.push(field::not_supported(
            &conversion.child("strategy"),
            &spec["conversion"]["strategy"],
            &["None", "Webhook"],
        )),
    }
    if spec["preserveUnknownFields"] == true {
        let detail = "must be false in order to use apiextensions.k8s.io/v1; use \
                      x-kubernetes-preserve-unknown-fields in the schema";
        causes.push(field::invalid(&path.child("preserveUnknownFields"), &json!(true), detail));
    }
    causes
}

fn columns(version: &Value, path: &Path<'_>) -> Vec<Cause> {
    let list = path.child("additionalPrinterColumns");
    let all = version["additionalPrinterColumns"].as_array().map_or(&[][..], Vec::as_slice);
    let mut causes = Vec::new();
    for (index, column) in all.iter().enumerate() {
        let here = list.index(index);
        for part in ["name", "type", "jsonPath"] {
            if column[part].as_str().unwrap_or_default().is_empty() {
                causes.push(field::required(&here.child(part), ""));
            }
        }
        let json_path = column["jsonPath"].as_str().unwrap_or_default();
        if let Err(error) = machinery::jsonpath::Path::parse(json_path) {
            causes.push(field::invalid_text(&here.child("jsonPath"), json_path, &error.to_string()));
        }
    }
    causes
}

fn stored_versions(definition: &Value) -> Vec<Cause> {
    let path = Path::new("status");
    let list = path.child("storedVersions");
    let all = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    object::strings(definition["status"].get("storedVersions"))
        .iter()
        .enumerate()
        .filter(|(_, stored)| !all.iter().any(|version| version["name"] == stored.as_str()))
        .map(|(index, stored)| {
            field::invalid_text(
                &list.index(index),
                stored,
                "missing from spec.versions; v1 was previously a storage \
                                 version, and must remain in spec.versions until a storage migration ensures no data \
                                 remains persisted in v1 and removes v1 from status.storedVersions",
            )
        })
        .collect()
}

fn unchanged(definition: &Value, old: &Value) -> Vec<Cause> {
    let path = Path::new("spec");
    let names = path.child("names");
    let (new_spec, old_spec) = (&definition["spec"], &old["spec"]);
    let established = conditions::is_true(old, "Established");
    let mut causes: Vec<Cause> =
        field::immutable(&path.child("group"), &new_spec["group"], &old_spec["group"]).into_iter().collect();
    if established {
        causes.extend(field::immutable(&path.child("scope"), &new_spec["scope"], &old_spec["scope"]));
        let (new, old) = (&new_spec["names"], &old_spec["names"]);
        causes.extend(field::immutable(&names.child("kind"), &new["kind"], &old["kind"]));
        causes.extend(field::immutable(&names.child("plural"), &new["plural"], &old["plural"]));
    }
    causes
}
