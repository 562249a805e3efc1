//! Rules of `metadata`: names, labels, annotations, owners, finalizers and the fields only the server sets.

pub mod names;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{self, Path};
use crate::status::Cause;

/// All annotations of an object together may not be larger than this many bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;
/// Longest name of a field manager, in bytes.
const MAX_MANAGER: usize = 128;
/// Letters and digits of generated names: no vowels, no look-alikes.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Generated names stay within a DNS label.
const MAX_GENERATED_BASE: usize = 58;

/// What names of a kind must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Lower-case letters, digits, `-` and `.`; most kinds, all custom resources.
    DnsSubdomain,
    /// Lower-case letters, digits and `-`, 63 at most; Namespaces and Services.
    DnsLabel,
    /// As a label, beginning with a letter; names of kinds and versions.
    Dns1035Label,
    /// Anything that fits into one segment of a URL; RBAC kinds.
    PathSegment,
}

impl NameRule {
    /// What is wrong with `name`. A prefix (`generateName`) may end in a dash.
    pub fn problems(self, name: &str, is_prefix: bool) -> Vec<String> {
        let masked;
        let name = if is_prefix && name.len() > 1 && name.ends_with('-') && self != Self::PathSegment {
            masked = format!("{}a", &name[..name.len() - 2]);
            &masked
        } else {
            name
        };
        match self {
            Self::DnsSubdomain => names::dns1123_subdomain(name),
            Self::DnsLabel => names::dns1123_label(name),
            Self::Dns1035Label => names::dns1035_label(name),
            Self::PathSegment => names::path_segment(name, is_prefix),
        }
    }
}

/// A generated name: `base`, cut to leave room, and five characters picked by the random bytes.
pub fn generate_name(base: &str, random: [u8; 5]) -> String {
    let mut end = base.len().min(MAX_GENERATED_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    name.extend(random.iter().map(|byte| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()])));
    name
}

/// Checks the metadata of an object about to be created. Its name must have been generated already.
pub fn validate_create(metadata: &Value, namespaced: bool, rule: NameRule, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(metadata, "name");
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        let path = path.child("generateName");
        causes.extend(rule.problems(prefix, true).iter().map(|problem| field::invalid_text(&path, prefix, problem)));
    }
    let name_path = path.child("name");
    if name.is_empty() {
        causes.push(field::required(&name_path, "name or generateName is required"));
    } else {
        causes.extend(rule.problems(name, false).iter().map(|problem| field::invalid_text(&name_path, name, problem)));
    }
    let namespace = text(metadata, "namespace");
    let namespace_path = path.child("namespace");
    match (namespaced, namespace) {
        (true, "") => causes.push(field::required(&namespace_path, "")),
        (true, namespace) => causes.extend(
            names::dns1123_label(namespace)
                .iter()
                .map(|problem| field::invalid_text(&namespace_path, namespace, problem)),
        ),
        (false, "") => {}
        (false, _) => causes.push(field::forbidden(&namespace_path, "not allowed on this type")),
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        causes.push(field::invalid(&path.child("generation"), &generation.into(), detail));
    }
    causes.extend(validate_labels(metadata.get("labels"), &path.child("labels")));
    causes.extend(validate_annotations(metadata.get("annotations"), &path.child("annotations")));
    causes.extend(validate_owners(metadata.get("ownerReferences"), &path.child("ownerReferences")));
    causes.extend(validate_finalizers(metadata.get("finalizers"), &path.child("finalizers")));
    causes.extend(validate_managed_fields(metadata.get("managedFields"), &path.child("managedFields")));
    causes
}

/// Checks the metadata of a changed object against what is stored.
pub fn validate_update(new: &Value, old: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        let before: BTreeSet<&str> = texts(old, "finalizers").collect();
        let added: BTreeSet<&str> = texts(new, "finalizers").filter(|name| !before.contains(name)).collect();
        if !added.is_empty() {
            let list: Vec<String> = added.into_iter().map(field::quote).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            causes.push(field::forbidden(&path.child("finalizers"), &detail));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        causes.push(field::invalid_text(&path.child("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = |metadata: &Value| metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation(new) < generation(old) {
        causes.push(field::invalid(&path.child("generation"), &generation(new).into(), "must not be decremented"));
    }
    for key in ["name", "namespace", "uid"] {
        let empty = Value::from("");
        let (new, old) = (new.get(key).unwrap_or(&empty), old.get(key).unwrap_or(&empty));
        causes.extend(field::immutable(&path.child(key), new, old));
    }
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (new.get(key).unwrap_or(&Value::Null), old.get(key).unwrap_or(&Value::Null));
        causes.extend(field::immutable(&path.child(key), new, old));
    }
    causes.extend(validate_labels(new.get("labels"), &path.child("labels")));
    causes.extend(validate_annotations(new.get("annotations"), &path.child("annotations")));
    causes.extend(validate_owners(new.get("ownerReferences"), &path.child("ownerReferences")));
    causes.extend(validate_managed_fields(new.get("managedFields"), &path.child("managedFields")));
    causes
}

/// Checks the metadata of an embedded resource, which needs no name.
pub fn validate_embedded(metadata: &Value, path: &Path<'_>) -> Vec<Cause> {
    let mut named = metadata.clone();
    if let Some(map) = named.as_object_mut()
        && text(metadata, "name").is_empty()
    {
        map.insert("name".into(), "fakename".into());
    }
    let namespaced = !text(metadata, "namespace").is_empty();
    validate_create(&named, namespaced, NameRule::PathSegment, path)
}

/// Keys and values of labels.
pub fn validate_labels(labels: Option<&Value>, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in entries(labels) {
        causes.extend(names::label_key(key).iter().map(|problem| field::invalid_text(path, key, problem)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(names::label_value(value).iter().map(|problem| field::invalid_text(path, value, problem)));
    }
    causes
}

/// Keys and total size of annotations.
pub fn validate_annotations(annotations: Option<&Value>, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for (key, value) in entries(annotations) {
        let problems = names::label_key(&key.to_lowercase());
        causes.extend(problems.iter().map(|problem| field::invalid_text(path, key, problem)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        causes.push(field::too_long(path, MAX_ANNOTATIONS as u64));
    }
    causes
}

fn validate_owners(owners: Option<&Value>, path: &Path<'_>) -> Vec<Cause> {
    let Some(owners) = owners else { return Vec::new() };
    let mut causes = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        let api_version = text(owner, "apiVersion");
        if api_version.rsplit('/').next().unwrap_or_default().is_empty() {
            causes.push(field::invalid_text(&path.child("apiVersion"), api_version, "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            if text(owner, key).is_empty() {
                causes.push(field::invalid_text(&path.child(key), "", "must not be empty"));
            }
        }
        if api_version == "v1" && text(owner, "kind") == "Event" {
            causes.push(field::invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let current = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                    );
                    causes.push(field::invalid(path, owners, &detail));
                }
                None => controller = Some(current),
            }
        }
    }
    causes
}

fn validate_finalizers(finalizers: Option<&Value>, path: &Path<'_>) -> Vec<Cause> {
    let Some(finalizers) = finalizers else { return Vec::new() };
    let names: Vec<&str> = finalizers.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut causes = Vec::new();
    for name in &names {
        causes.extend(names::label_key(name).iter().map(|problem| field::invalid_text(path, name, problem)));
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(field::invalid(path, finalizers, detail));
    }
    causes
}

fn validate_managed_fields(entries: Option<&Value>, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, entry) in entries.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = path.index(index);
        let operation = text(entry, "operation");
        if operation != "Apply" && operation != "Update" {
            causes.push(field::invalid_text(&path.child("operation"), operation, "must be `Apply` or `Update`"));
        }
        let fields_type = text(entry, "fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            causes.push(field::invalid_text(&path.child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        causes.extend(validate_manager(text(entry, "manager"), &path.child("manager")));
    }
    causes
}

/// The name of a field manager, as in `?fieldManager=`.
pub fn validate_manager(manager: &str, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if manager.len() > MAX_MANAGER {
        causes.push(field::too_long(path, MAX_MANAGER as u64));
    }
    for (position, character) in manager.char_indices().filter(|(_, character)| character.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {position})", character as u32);
        causes.push(field::invalid_text(path, manager, &detail));
    }
    causes
}

/// Warnings about finalizer names that a custom resource newly has.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let before: BTreeSet<&str> = old.into_iter().flat_map(|old| texts(old, "finalizers")).collect();
    let added: BTreeSet<&str> = texts(new, "finalizers").filter(|name| !before.contains(name)).collect();
    let mut warnings = Vec::new();
    for name in added {
        let quoted = field::quote(name);
        warnings
            .extend(names::label_key(name).iter().map(|problem| format!("metadata.finalizers: {quoted}: {problem}")));
        if !name.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(&name) {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            warnings.push(format!(
                "metadata.finalizers: {quoted}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}

/// Sets what only the server may set on a new object and drops what it may not have yet.
pub fn fill_on_create(metadata: &mut Map<String, Value>, uid: &str, now: &str) {
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(key);
    }
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
}

/// Carries over what an update cannot change. A wrong uid stays, to be refused.
pub fn keep_on_update(new: &mut Map<String, Value>, old: &Map<String, Value>) {
    let mut keep = |key: &str, overwrite: bool| {
        if let Some(value) = old.get(key)
            && (overwrite || new.get(key).is_none_or(|given| given.is_null() || given == ""))
        {
            new.insert(key.to_owned(), value.clone());
        }
    };
    keep("uid", false);
    keep("creationTimestamp", true);
    keep("deletionTimestamp", true);
    keep("deletionGracePeriodSeconds", false);
    new.remove("selfLink");
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.and_then(Value::as_object).into_iter().flatten()
}
