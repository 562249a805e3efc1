//! Roles and bindings that every plane starts with.
//!
//! Written at start when they are missing; brought up to date at later starts unless the annotation
//! `rbac.authorization.kubernetes.io/autoupdate` says `false`.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{GROUP, Rule};
use crate::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED};

/// The annotation that lets an administrator keep their own version.
pub const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

/// Groups of the agent platforms whose objects users of a namespace work with.
const PRODUCT_GROUPS: [&str; 3] = ["kubeopencode.io", "omnia.altairalabs.ai", "agents.recif.dev"];

/// Paths that any client needs before it can ask for anything.
const DISCOVERY: [&str; 11] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
/// Paths that need no identity.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

fn on(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Rule {
    Rule { api_groups: words(groups), resources: words(resources), verbs: words(verbs), ..Rule::default() }
}

fn paths(urls: &[&str], verbs: &[&str]) -> Rule {
    Rule { non_resource_urls: words(urls), verbs: words(verbs), ..Rule::default() }
}

/// What a role or binding that is already there lacks, added; `None` when it lacks nothing or its owner keeps it
/// as it is. Nothing is ever taken away.
pub fn amend(current: &Value, wanted: &Value) -> Option<Value> {
    if current["metadata"]["annotations"][AUTOUPDATE] != "true" {
        return None;
    }
    let mut amended = current.clone();
    let rules = |object: &Value| Vec::<Rule>::deserialize(&object["rules"]).unwrap_or_default();
    let held = rules(current);
    let held: Vec<&Rule> = held.iter().collect();
    let missing: Vec<Rule> = rules(wanted).into_iter().filter(|rule| !Rule::all_covered(&held, rule)).collect();
    append(&mut amended, "rules", missing.into_iter().map(|rule| json!(rule)));
    let subjects = wanted["subjects"].as_array().into_iter().flatten();
    let lacking = subjects.filter(|subject| !current["subjects"].as_array().is_some_and(|all| all.contains(subject)));
    append(&mut amended, "subjects", lacking.cloned());
    (amended != *current).then_some(amended)
}

/// Appends to a list that may not be there; adds no empty one.
fn append(object: &mut Value, field: &str, more: impl Iterator<Item = Value>) {
    for item in more {
        // Indexing makes the field, so only when there is something for it.
        let list = &mut object[field];
        if !list.is_array() {
            *list = json!([]);
        }
        list.as_array_mut().expect("it is a list now").push(item);
    }
}

/// All of them, ready to be created.
pub fn objects() -> Vec<Value> {
    let mut objects = cluster_roles();
    objects.extend([
        binding("cluster-admin", &[MASTERS]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
    ]);
    objects
}

fn cluster_roles() -> Vec<Value> {
    vec![
        role("cluster-admin", &[], &Rule::everything()),
        aggregated("admin", &[]),
        aggregated("edit", &["admin"]),
        aggregated("view", &["edit"]),
        role("system:aggregate-to-admin", &["admin"], &administration()),
        role("system:aggregate-to-edit", &["edit"], &editing()),
        role("system:aggregate-to-view", &["view"], &viewing()),
        role("system:orrery:aggregate-to-edit", &["edit"], &[on(&PRODUCT_GROUPS, &["*"], &WRITE)]),
        role("system:orrery:aggregate-to-view", &["view"], &[on(&PRODUCT_GROUPS, &["*"], &READ)]),
        role("system:discovery", &[], &[paths(&DISCOVERY, &["get"])]),
        role("system:public-info-viewer", &[], &[paths(&PUBLIC, &["get"])]),
        role("system:basic-user", &[], &knowing_oneself()),
        role("system:auth-delegator", &[], &delegation()),
    ]
}

fn administration() -> Vec<Rule> {
    vec![
        on(&["authorization.k8s.io"], &["localsubjectaccessreviews"], &["create"]),
        on(&[GROUP], &["rolebindings", "roles"], &[READ.as_slice(), &WRITE].concat()),
    ]
}

fn editing() -> Vec<Rule> {
    vec![
        on(&[""], &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"], &READ),
        on(&[""], &["serviceaccounts"], &["impersonate"]),
        on(&[""], &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], &WRITE),
        on(&[""], &["pods/eviction", "serviceaccounts/token"], &["create"]),
        on(
            &[""],
            &[
                "configmaps",
                "events",
                "persistentvolumeclaims",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
            &WRITE,
        ),
        on(&["apps"], &["deployments", "deployments/scale", "replicasets", "replicasets/scale"], &WRITE),
        on(&["events.k8s.io"], &["events"], &WRITE),
        on(&["coordination.k8s.io"], &["leases"], &WRITE),
    ]
}

fn viewing() -> Vec<Rule> {
    vec![
        on(
            &[""],
            &[
                "configmaps",
                "events",
                "namespaces",
                "namespaces/status",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "pods/log",
                "pods/status",
                "serviceaccounts",
                "services",
                "services/status",
            ],
            &READ,
        ),
        on(
            &["apps"],
            &[
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
            ],
            &READ,
        ),
        on(&["discovery.k8s.io"], &["endpointslices"], &READ),
        on(&["events.k8s.io"], &["events"], &READ),
        on(&["coordination.k8s.io"], &["leases"], &READ),
    ]
}

fn knowing_oneself() -> Vec<Rule> {
    vec![
        on(&["authorization.k8s.io"], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], &["create"]),
        on(&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
    ]
}

fn delegation() -> Vec<Rule> {
    vec![
        on(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        on(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ]
}

fn metadata(name: &str, aggregate_to: &[&str]) -> Value {
    let mut labels = json!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
    for role in aggregate_to {
        labels[format!("{GROUP}/aggregate-to-{role}")] = "true".into();
    }
    json!({ "name": name, "labels": labels, "annotations": { AUTOUPDATE: "true" } })
}

fn role(name: &str, aggregate_to: &[&str], rules: &[Rule]) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata(name, aggregate_to),
        "rules": rules,
    })
}

fn aggregated(name: &str, aggregate_to: &[&str]) -> Value {
    let selector = json!({ "matchLabels": { format!("{GROUP}/aggregate-to-{name}"): "true" } });
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata(name, aggregate_to),
        "aggregationRule": { "clusterRoleSelectors": [selector] },
        "rules": [],
    })
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({ "apiGroup": GROUP, "kind": "Group", "name": group })).collect();
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata(role, &[]),
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
        "subjects": subjects,
    })
}
