//! The house keeps its shape: which crate may know which.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Every crate of ours and the ones of ours it may depend on (development dependencies aside).
const ALLOWED: &[(&str, &[&str])] = &[
    ("orrery-machinery", &[]),
    ("orrery-api", &[]),
    ("orrery-init", &["orrery-api"]),
    ("orrery-model", &[]),
    ("orrery-store", &["orrery-machinery"]),
    ("orrery-apiserver", &["orrery-machinery", "orrery-store"]),
    ("orrery-engine", &["orrery-api"]),
    ("orrery-workloads", &["orrery-apiserver", "orrery-engine", "orrery-machinery"]),
    ("orrery-node", &["orrery-apiserver", "orrery-engine", "orrery-machinery"]),
    ("orrery-controllers", &["orrery-api", "orrery-engine", "orrery-tools"]),
    ("orrery-deploy", &["orrery-api"]),
    ("orrery-tools", &["orrery-api"]),
    ("orrery-router", &["orrery-api"]),
    ("orrery-runtime", &["orrery-api", "orrery-tools"]),
    ("orrery-server", &["orrery-api", "orrery-controllers", "orrery-deploy"]),
    ("orrery-telemetry", &[]),
];

/// Crates that may depend on anything of ours because nothing that ships depends on them.
const TOP: &[&str] = &["orrery", "orrery-bench", "orrery-testkit"];

/// Crates that must not reach, by any path, something that would make them slow or impure.
const NEVER_REACHES: &[(&str, &[&str])] = &[
    ("orrery-machinery", &["axum", "hyper", "kube", "tokio", "k8s-openapi"]),
    ("orrery-store", &["axum", "kube", "k8s-openapi"]),
    ("orrery-apiserver", &["kube", "k8s-openapi"]),
    ("orrery-controllers", &["rusqlite"]),
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Names by package id, and the ordinary dependencies of each package by name.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let names: BTreeMap<String, String> =
        array(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in array(&metadata["resolve"]["nodes"]) {
        let from = graph.entry(names[&text(&node["id"])].clone()).or_default();
        for dependency in array(&node["deps"]) {
            let ordinary = array(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            if ordinary {
                from.insert(names[&text(&dependency["pkg"])].clone());
            }
        }
    }
    graph
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

fn reachable(graph: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(name) = next.pop() {
        for dependency in graph.get(&name).into_iter().flatten() {
            if seen.insert(dependency.clone()) {
                next.push(dependency.clone());
            }
        }
    }
    seen
}

#[test]
fn dependencies_point_one_way() {
    let graph = graph();
    let ours: BTreeSet<&String> = graph.keys().filter(|name| name.starts_with("orrery")).collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for name in ours {
        if TOP.contains(&name.as_str()) {
            continue;
        }
        let allowed =
            allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no row in ALLOWED: say what it may know"));
        for dependency in &graph[name] {
            let fine = !dependency.starts_with("orrery") || allowed.contains(&dependency.as_str());
            assert!(fine, "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn inner_crates_stay_light() {
    let graph = graph();
    for (name, forbidden) in NEVER_REACHES {
        let reached = reachable(&graph, name);
        for dependency in *forbidden {
            assert!(!reached.contains(*dependency), "{name} reaches {dependency}");
        }
    }
}
