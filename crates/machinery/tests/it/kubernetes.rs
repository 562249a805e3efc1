//! What a real kube-apiserver 1.36 answered to a few hundred writes, against what we would answer.

use std::collections::BTreeSet;

use machinery::field::Path;
use machinery::meta::{self, NameRule};
use machinery::status::Cause;
use machinery::{builtin, schema};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("vectors/kubernetes.jsonl");

/// Differences that are meant: `(title, why)`.
const DIFFERENT: &[(&str, &str)] = &[
    ("pod update env", "the diff below the refusal is printed in our own form"),
    ("pvc change", "the diff below the refusal is printed in our own form"),
    ("lease times", "times of any precision are read, not only microseconds"),
];

/// The object as it would be stored, or the words of the refusal to read it.
fn complete(mut object: Value) -> Result<Value, String> {
    let (api_version, kind) =
        (object["apiVersion"].as_str().unwrap().to_owned(), object["kind"].as_str().unwrap().to_owned());
    let schema = builtin::schema(&api_version, &kind).unwrap();
    builtin::decode(&schema, &object)?;
    assert_eq!(schema::prune(&schema, &mut object), Vec::<String>::new());
    builtin::normalize(&schema, &mut object);
    builtin::default(&api_version, &kind, &mut object);
    Ok(object)
}

fn validate(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let schema = builtin::schema(api_version, kind).unwrap();
    let rule = match kind {
        "Namespace" => NameRule::DnsLabel,
        _ if api_version.starts_with("rbac") => NameRule::PathSegment,
        _ => NameRule::DnsSubdomain,
    };
    let metadata = Path::new("metadata");
    let mut causes = match old {
        None => {
            let mut named = object["metadata"].clone();
            let namespaced = !["Namespace", "Node", "StorageClass", "PriorityClass", "CustomResourceDefinition"]
                .contains(&kind)
                && !kind.starts_with("Cluster");
            if namespaced {
                named["namespace"] = json!("default");
            }
            meta::validate_create(&named, namespaced, rule, &metadata)
        }
        Some(old) => {
            let mut new = object["metadata"].clone();
            new["resourceVersion"] = json!("1");
            meta::validate_update(&new, &old["metadata"], &metadata)
        }
    };
    causes.extend(schema::validate(&schema, object));
    causes.extend(builtin::validate(api_version, kind, object, old));
    causes
}

/// What registries and admission add to objects, which is not the schema's business.
fn without_registry(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap().to_owned();
    let mut drop = |pointer: &str, keys: &[&str]| {
        if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            for key in keys {
                fields.remove(*key);
            }
        }
    };
    drop("/metadata", &["namespace", "finalizers"]);
    drop("", &["status"]);
    match kind.as_str() {
        "Pod" => drop("/spec", &["priority", "preemptionPolicy", "tolerations"]),
        "Service" => {
            drop("/spec", &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
            drop("/spec/ports/0", &["nodePort"]);
        }
        "Deployment" => drop("/metadata", &["annotations"]),
        "Namespace" => drop("/spec", &["finalizers"]),
        "Node" => drop("/spec", &["taints"]),
        _ => {}
    }
    object
}

fn check(case: &Value) -> Result<(), String> {
    let object = match complete(case["object"].clone()) {
        Ok(object) => object,
        Err(words) => {
            let message = case["message"].as_str().unwrap_or("");
            return if message.ends_with(&words) {
                Ok(())
            } else {
                Err(format!("we say: {words}\n   they: {message}"))
            };
        }
    };
    let old = case.get("old").map(|old| complete(old.clone()).unwrap());
    let compared = compare(validate(&object, old.as_ref()), &case["causes"]);
    let mut problems: Vec<String> = compared.err().into_iter().collect();
    if case["code"].as_u64() == Some(400) {
        problems.push(format!("they cannot read it: {}", case["message"]));
    }
    if let Some(result) = case.get("result") {
        let (ours, theirs) = (without_registry(object), without_registry(result.clone()));
        if ours != theirs {
            problems.push(format!("ours:   {ours}\ntheirs: {theirs}"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

#[test]
fn we_answer_as_kubernetes_does() {
    let mut failures = Vec::new();
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let title = case["title"].as_str().unwrap();
        let meant = DIFFERENT.iter().any(|(other, _)| *other == title);
        match (check(&case), meant) {
            (Err(problems), false) => failures.push(format!("== {title}\n{problems}")),
            (Ok(()), true) => failures.push(format!("== {title}: listed as different, but is the same")),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

const CUSTOM: &str = include_str!("vectors/custom.jsonl");

/// A custom resource with one field, `spec.c`, from body to verdict.
fn check_custom(case: &Value) -> Result<(), String> {
    let document =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"c": case["schema"]}}}});
    let schema = schema::Schema::from_json_schema(&document).map_err(|causes| format!("refused: {causes:?}"))?;
    let rules = schema::rules::Compiled::new(&schema).map_err(|causes| format!("refused: {causes:?}"))?;
    let complete = |value: &Value| {
        let mut object = json!({"apiVersion": "y.io/v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"c": value}});
        schema::drop_nulls(&schema, &mut object);
        schema::prune(&schema, &mut object);
        schema::default(&schema, &mut object);
        object
    };
    let object = complete(&case["value"]);
    let old = case.get("old").map(complete);
    let mut causes = schema::judge(&schema, Some(&rules), &object, old.as_ref());
    // The recorded definition had rules elsewhere too, so the server always said when it skipped them.
    if rules.is_empty() {
        causes.extend(schema::rules::blocked(&causes));
    }
    compare(causes, &case["causes"])
}

fn compare(ours: Vec<Cause>, theirs: &Value) -> Result<(), String> {
    let ours: BTreeSet<(String, String, String)> =
        ours.into_iter().map(|cause| (cause.field, cause.reason, cause.message)).collect();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap().to_owned();
    let theirs: BTreeSet<(String, String, String)> = theirs
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| (text(cause, "field"), text(cause, "reason"), text(cause, "message")))
        .collect();
    let mut problems: Vec<String> = ours.difference(&theirs).map(|cause| format!("only we: {cause:?}")).collect();
    problems.extend(theirs.difference(&ours).map(|cause| format!("only they: {cause:?}")));
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

#[test]
fn custom_resources_are_judged_as_kubernetes_does() {
    let mut failures = Vec::new();
    for line in CUSTOM.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        if let Err(problems) = check_custom(&case) {
            failures.push(format!("== {} {}\n{problems}", case["schema"], case["value"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
