//! The operations of a kind: paths, verbs and the parameters clients look for.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::components::name;
use crate::kinds::{Kind, Subresource};
use crate::request::Verb;

/// Paths and their operations.
pub fn of(kind: &Kind) -> BTreeMap<String, Value> {
    let root = format!("/{}", super::path(kind));
    let collection = if kind.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{root}/{}", kind.plural)
    };
    let object = format!("{collection}/{{name}}");
    let mut paths = BTreeMap::new();
    paths.insert(collection, item(kind, None, &[Verb::List, Verb::Create, Verb::DeleteCollection]));
    paths.insert(object.clone(), item(kind, None, &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete]));
    if kind.namespaced {
        paths.insert(format!("{root}/{}", kind.plural), item(kind, None, &[Verb::List]));
    }
    for sub in &kind.subresources {
        paths.insert(format!("{object}/{}", sub.name), item(kind, Some(sub), &sub.verbs));
    }
    paths.retain(|_, item| item.as_object().is_some_and(|item| item.len() > 1));
    paths
}

fn item(kind: &Kind, sub: Option<&Subresource>, verbs: &[Verb]) -> Value {
    let mut item = Map::new();
    let mut parameters = vec![query("pretty", "string", "Indent the answer.")];
    let path = |name: &str, text: &str| {
        json!({ "name": name, "in": "path", "required": true, "description": text,
            "schema": { "type": "string", "uniqueItems": true } })
    };
    if kind.namespaced {
        parameters.push(path("namespace", "The namespace."));
    }
    parameters.push(path("name", &format!("Name of the {}.", kind.kind)));
    item.insert("parameters".into(), json!(parameters));
    let allowed = verbs.iter().filter(|verb| sub.is_some() || kind.verbs.contains(verb));
    for verb in allowed {
        item.insert(method(*verb).into(), operation(kind, sub, *verb));
    }
    Value::Object(item)
}

fn method(verb: Verb) -> &'static str {
    match verb {
        Verb::Get | Verb::List | Verb::Watch => "get",
        Verb::Create => "post",
        Verb::Update => "put",
        Verb::Patch => "patch",
        Verb::Delete | Verb::DeleteCollection => "delete",
    }
}

fn operation(kind: &Kind, sub: Option<&Subresource>, verb: Verb) -> Value {
    let of_kind = match sub {
        Some(sub) => json!({ "group": sub.group, "version": sub.version, "kind": sub.kind }),
        None => json!({ "group": kind.group, "version": kind.version, "kind": kind.kind }),
    };
    let own = format!("#/components/schemas/{}", name(kind));
    let answer = match verb {
        Verb::List => format!("{own}List"),
        Verb::Delete | Verb::DeleteCollection => {
            "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status".to_owned()
        }
        _ => own.clone(),
    };
    let mut operation = json!({
        "operationId": format!("{}{}{}", verb.as_str(), kind.kind, sub.map(|sub| sub.name.as_str()).unwrap_or_default()),
        "tags": [format!("{}_{}", kind.group, kind.version)],
        "parameters": parameters(verb),
        "responses": { "200": { "description": "OK", "content": content(&["application/json"], &answer) } },
        "x-kubernetes-action": verb.as_str(),
        "x-kubernetes-group-version-kind": of_kind,
    });
    let body = match verb {
        Verb::Create | Verb::Update => Some(content(&["*/*"], &own)),
        Verb::Patch => {
            let types: &[&str] = if kind.custom { &PATCHES[..3] } else { &PATCHES };
            Some(content(types, "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"))
        }
        Verb::Delete | Verb::DeleteCollection => {
            Some(content(&["*/*"], "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"))
        }
        _ => None,
    };
    if let Some(body) = body {
        operation["requestBody"] = json!({ "content": body });
    }
    operation
}

/// Media types of patches; the last is for built-in kinds only.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

fn content(types: &[&str], reference: &str) -> Value {
    types
        .iter()
        .map(|one| ((*one).to_owned(), json!({ "schema": { "$ref": reference } })))
        .collect::<Map<_, _>>()
        .into()
}

fn query(name: &str, kind: &str, text: &str) -> Value {
    json!({ "name": name, "in": "query", "description": text, "schema": { "type": kind, "uniqueItems": true } })
}

fn parameters(verb: Verb) -> Vec<Value> {
    let select = [
        query("labelSelector", "string", "Only objects with these labels."),
        query("fieldSelector", "string", "Only objects with these fields."),
    ];
    let write = [
        query("dryRun", "string", "All: do everything but keep the result."),
        query("fieldManager", "string", "Who manages the fields that are written."),
        query("fieldValidation", "string", "What to do about unknown fields: Ignore, Warn or Strict."),
    ];
    match verb {
        Verb::Get => Vec::new(),
        Verb::List | Verb::Watch => {
            let mut all = select.to_vec();
            all.extend([
                query("limit", "integer", "At most so many objects."),
                query("continue", "string", "Where the last page ended."),
                query("resourceVersion", "string", "The moment to read or follow from."),
                query("resourceVersionMatch", "string", "How exactly the moment is meant."),
                query("timeoutSeconds", "integer", "How long to follow."),
                query("watch", "boolean", "Follow changes."),
                query("allowWatchBookmarks", "boolean", "Say now and then how far a watch is."),
                query("sendInitialEvents", "boolean", "Begin a watch with what is there."),
            ]);
            all
        }
        Verb::Create | Verb::Update => write.to_vec(),
        Verb::Patch => {
            let mut all = write.to_vec();
            all.push(query("force", "boolean", "Take fields over from other managers."));
            all
        }
        Verb::Delete | Verb::DeleteCollection => {
            let mut all = vec![
                write[0].clone(),
                query("gracePeriodSeconds", "integer", "How long to wait for a graceful end."),
                query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
            ];
            if verb == Verb::DeleteCollection {
                all.extend(select);
            }
            all
        }
    }
}
