//! What clients read before they do anything.

use serde_json::{Value, json};
use testkit::Plane;

use crate::support::{DEFINITIONS, Events, definition, with_widgets};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn find<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|one| one[field] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn aggregated_discovery_names_kinds_and_subresources() {
    let plane = with_widgets().await;
    for accept in [AGGREGATED.to_owned(), format!("{AGGREGATED};profile=nopeer,{AGGREGATED},application/json")] {
        let answer = plane.request("GET", "/api", &[("accept", &accept)], "").await;
        assert_eq!(answer.headers["content-type"], AGGREGATED);
        let pods = find(&answer.json()["items"][0]["versions"][0]["resources"], "resource", "pods").clone();
        assert_eq!((&pods["responseKind"]["kind"], &pods["scope"]), (&json!("Pod"), &json!("Namespaced")));
        assert_eq!(find(&pods["subresources"], "subresource", "log")["verbs"], json!(["get"]));
    }
    let groups = plane.request("GET", "/apis", &[("accept", AGGREGATED)], "").await.json();
    let group = groups["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["metadata"]["name"] == "example.com")
        .unwrap()
        .clone();
    assert_eq!(group["versions"][0]["resources"][0]["shortNames"], json!(["wd"]));
}

#[tokio::test]
async fn plain_discovery_says_the_same() {
    let plane = with_widgets().await;
    assert_eq!(plane.get("/api").await.json()["versions"], json!(["v1"]));
    let groups = plane.get("/apis").await.json();
    assert_eq!(find(&groups["groups"], "name", "apps")["preferredVersion"]["groupVersion"], "apps/v1");
    assert_eq!(plane.get("/apis/example.com").await.json()["kind"], "APIGroup");
    let resources = plane.get("/apis/apps/v1").await.json();
    assert_eq!(find(&resources["resources"], "name", "deployments/scale")["kind"], "Scale");
    assert_eq!(plane.get("/apis/nothing.example.com").await.code, 404);
    plane.delete(&format!("{DEFINITIONS}/widgets.example.com")).await;
}

#[tokio::test]
async fn openapi_describes_builtin_and_custom_kinds() {
    let plane = with_widgets().await;
    let index = plane.get("/openapi/v3").await.json();
    for path in ["api/v1", "apis/apps/v1", "apis/example.com/v1"] {
        let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
        let document = plane.get(url).await;
        assert_eq!(document.code, 200);
        let document = document.json();
        let every: Vec<&Value> = document["paths"].as_object().unwrap().values().collect();
        let patch = every.iter().find_map(|item| item.get("patch")).unwrap();
        assert_eq!(find(&patch["parameters"], "name", "fieldValidation")["in"], "query");
        unresolved(&document, &document);
    }
    let document = plane.get(index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap()).await.json();
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["description"], "How big it is.");
    assert_eq!(plane.get("/openapi/v2").await.json()["paths"], json!({}), "v3 describes; v2 is there for kubectl");
}

#[tokio::test]
async fn an_openapi_url_changes_with_the_definition() {
    let plane = with_widgets().await;
    let url = |index: &Value| index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let before = url(&plane.get("/openapi/v3").await.json());
    let mut changed = plane.get(&format!("{DEFINITIONS}/widgets.example.com")).await.json();
    changed["spec"]["versions"][0]["schema"] = definition()["spec"]["versions"][0]["schema"].clone();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["new"] =
        json!({ "type": "string" });
    assert_eq!(plane.put(&format!("{DEFINITIONS}/widgets.example.com"), &changed).await.code, 200);
    let after = url(&plane.get("/openapi/v3").await.json());
    assert_ne!(before, after);
    assert!(plane.get(&after).await.text().contains("\"new\""));
    assert_eq!(plane.get(&before).await.code, 302);
}

/// Every `$ref` leads somewhere.
fn unresolved(document: &Value, node: &Value) {
    match node {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                let name = reference.strip_prefix("#/components/schemas/").unwrap();
                assert!(document["components"]["schemas"].get(name).is_some(), "{reference} leads nowhere");
            }
            fields.values().for_each(|child| unresolved(document, child));
        }
        Value::Array(items) => items.iter().for_each(|child| unresolved(document, child)),
        _ => {}
    }
}

#[tokio::test]
async fn health_version_and_metrics_answer() {
    let plane = Plane::start().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/store"] {
        assert_eq!(plane.get(path).await.text(), "ok");
    }
    let verbose = plane.get("/readyz?verbose").await.text();
    assert!(verbose.contains("[+]store ok") && verbose.ends_with("readyz check passed\n"), "{verbose}");
    assert_eq!(plane.get("/readyz/nothing").await.code, 404);
    let version = plane.get("/version").await.json();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    let metrics = plane.get("/metrics").await.text();
    assert!(metrics.contains("apiserver_request_total{") && metrics.contains("orrery_store_objects"), "{metrics}");
    plane.server().close();
    assert_eq!(plane.get("/readyz").await.code, 500);
    assert_eq!(plane.get("/livez").await.code, 200);
}

#[tokio::test]
async fn aggregated_roles_show_the_rules_they_stand_for() {
    let plane = Plane::start().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    plane
        .post(
            path,
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": "whole" },
                "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "part": "yes" } }] },
            }),
        )
        .await;
    let rules = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }]);
    plane
        .post(
            path,
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": "part", "labels": { "part": "yes" } }, "rules": rules,
            }),
        )
        .await;
    let watch = format!("{path}?watch=1&fieldSelector=metadata.name=whole");
    let mut events = Events::open(&plane, &watch, "application/json").await;
    loop {
        let event = events.next().await.unwrap();
        if event["object"]["rules"] == rules {
            break;
        }
    }
}
