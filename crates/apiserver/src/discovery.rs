//! What is served: aggregated discovery for today's clients, plain lists for the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use machinery::status::Status;
use serde_json::{Value, json};

use crate::kinds::{Kind, Subresource, Table, api_version};
use crate::request::{Verb, unknown_path};
use crate::respond;
use crate::server::ApiServer;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers below `/api` and `/apis`.
pub fn answer(server: &ApiServer, segments: &[&str], headers: &HeaderMap) -> Result<Response, Status> {
    let table = server.kinds().table();
    let plain = |value: &Value| Ok(respond::value(StatusCode::OK, value, false));
    match segments {
        ["api"] if wants_aggregated(headers) => Ok(aggregated(&table, true)),
        ["apis"] if wants_aggregated(headers) => Ok(aggregated(&table, false)),
        ["api"] => plain(&json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1" }],
        })),
        ["apis"] => {
            let groups: Vec<Value> = groups(&table).iter().map(|(group, versions)| describe(group, versions)).collect();
            plain(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
        }
        ["apis", group] => {
            let groups = groups(&table);
            let versions = groups.get(*group).ok_or_else(unknown_path)?;
            let mut value = describe(group, versions);
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            plain(&value)
        }
        ["api", version] => resources(&table, "", version),
        ["apis", group, version] => resources(&table, group, version),
        _ => Err(unknown_path()),
    }
}

/// The paths of the root.
pub fn paths(server: &ApiServer) -> Response {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in groups(&server.kinds().table()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    respond::value(StatusCode::OK, &json!({ "paths": paths }), true)
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|clause| {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        ["application/json", "g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
            .iter()
            .all(|part| parts.contains(part))
    })
}

/// Versions by group, best first; the core group is not among them.
fn groups(table: &Table) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in table.iter().filter(|kind| !kind.group.is_empty()) {
        let versions = groups.entry(kind.group.clone()).or_default();
        if !versions.contains(&kind.version) {
            versions.push(kind.version.clone());
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    }
    groups
}

/// Stable before beta before alpha, higher before lower, anything else last.
pub fn priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let major = digits(rest);
    let Ok(number) = major.parse() else { return (0, 0, 0) };
    let suffix = &rest[major.len()..];
    let minor = |text: &str| text.parse().ok();
    match (suffix, suffix.strip_prefix("beta").and_then(minor), suffix.strip_prefix("alpha").and_then(minor)) {
        ("", ..) => (3, number, 0),
        (_, Some(beta), _) => (2, number, beta),
        (_, _, Some(alpha)) => (1, number, alpha),
        _ => (0, 0, 0),
    }
}

fn describe(group: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({ "groupVersion": api_version(group, version), "version": version });
    json!({
        "name": group,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

fn of<'a>(table: &'a Table, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Kind>> {
    table.iter().filter(move |kind| kind.group == group && kind.version == version)
}

fn resources(table: &Table, group: &str, version: &str) -> Result<Response, Status> {
    let mut resources = Vec::new();
    for kind in of(table, group, version) {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|sub| subresource(kind, sub)));
    }
    if resources.is_empty() {
        return Err(unknown_path());
    }
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": api_version(group, version), "resources": resources,
    });
    Ok(respond::value(StatusCode::OK, &list, false))
}

fn words(verbs: &[Verb]) -> Vec<&'static str> {
    verbs.iter().map(|verb| verb.as_str()).collect()
}

fn resource(kind: &Kind) -> Value {
    let mut value = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": words(&kind.verbs),
    });
    if !kind.short_names.is_empty() {
        value["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        value["categories"] = json!(kind.categories);
    }
    value
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    let mut value = json!({
        "name": format!("{}/{}", kind.plural, sub.name), "singularName": "", "namespaced": kind.namespaced,
        "kind": sub.kind, "verbs": words(&sub.verbs),
    });
    if (&sub.group, &sub.version) != (&kind.group, &kind.version) {
        value["group"] = json!(sub.group);
        value["version"] = json!(sub.version);
    }
    value
}

fn aggregated(table: &Table, core: bool) -> Response {
    let groups = if core { BTreeMap::from([(String::new(), vec!["v1".to_owned()])]) } else { groups(table) };
    let items: Vec<Value> = groups.iter().map(|(group, versions)| aggregated_group(table, group, versions)).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    respond::bytes(StatusCode::OK, AGGREGATED, list.to_string())
}

fn aggregated_group(table: &Table, group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = of(table, group, version).map(|kind| aggregated_resource(kind)).collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response_kind =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let below = |sub: &Subresource| {
        json!({
            "subresource": sub.name,
            "responseKind": response_kind(&sub.group, &sub.version, &sub.kind),
            "verbs": words(&sub.verbs),
        })
    };
    let mut value = json!({
        "resource": kind.plural,
        "responseKind": response_kind(&kind.group, &kind.version, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": words(&kind.verbs),
    });
    for (field, list) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !list.is_empty() {
            value[field] = json!(list);
        }
    }
    if !kind.subresources.is_empty() {
        value["subresources"] = kind.subresources.iter().map(below).collect();
    }
    value
}
