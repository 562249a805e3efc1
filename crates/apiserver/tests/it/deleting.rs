//! Deletion: finalizers, grace, preconditions, propagation, collections, namespaces.

use serde_json::{Value, json};
use testkit::Plane;

use crate::support::{MAPS, labelled, map};

async fn delete_with(plane: &Plane, path: &str, options: &Value) -> testkit::Answer {
    plane.request("DELETE", path, &[("content-type", "application/json")], options.to_string()).await
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let plane = Plane::start().await;
    let mut object = map("held");
    object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    plane.post(MAPS, &object).await;
    let path = format!("{MAPS}/held");
    let deleting = plane.delete(&path).await;
    assert_eq!(deleting.code, 200);
    let live = deleting.json();
    assert!(live["metadata"]["deletionTimestamp"].is_string(), "{live}");
    assert_eq!(live["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(plane.delete(&path).await.json()["metadata"]["resourceVersion"], live["metadata"]["resourceVersion"]);

    let more = json!({ "metadata": { "finalizers": ["example.com/one", "example.com/new"] } });
    let refused = plane.patch(&path, "merge-patch+json", &more).await;
    assert_eq!(
        (refused.code.as_u16(), &refused.json()["details"]["causes"][0]["field"]),
        (422, &json!("metadata.finalizers"))
    );
    let fewer = json!({ "metadata": { "finalizers": ["example.com/one"] } });
    assert_eq!(plane.patch(&path, "merge-patch+json", &fewer).await.code, 200);
    let none = json!({ "metadata": { "finalizers": null } });
    let last = plane.patch(&path, "merge-patch+json", &none).await;
    assert_eq!(last.code, 200, "{}", last.text());
    assert_eq!(plane.get(&path).await.code, 404);
}

#[tokio::test]
async fn preconditions_guard_a_delete() {
    let plane = Plane::start().await;
    let object = plane.post(MAPS, &map("x")).await.json();
    let path = format!("{MAPS}/x");
    let wrong = delete_with(&plane, &path, &json!({ "preconditions": { "uid": "other" } })).await;
    assert_eq!((wrong.code.as_u16(), &wrong.json()["reason"]), (409, &json!("Conflict")));
    let wrong = delete_with(&plane, &path, &json!({ "preconditions": { "resourceVersion": "1" } })).await;
    assert_eq!(wrong.code, 409);
    let right = json!({ "preconditions": {
        "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"] } });
    assert_eq!(delete_with(&plane, &path, &right).await.code, 200);
}

#[tokio::test]
async fn propagation_policies_become_finalizers() {
    let plane = Plane::start().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let name = policy.to_lowercase();
        plane.post(MAPS, &map(&name)).await;
        let answer = delete_with(&plane, &format!("{MAPS}/{name}"), &json!({ "propagationPolicy": policy })).await;
        assert_eq!(answer.json()["metadata"]["finalizers"], json!([finalizer]), "{}", answer.text());
    }
    plane.post(MAPS, &map("background")).await;
    delete_with(&plane, &format!("{MAPS}/background"), &json!({ "propagationPolicy": "Background" })).await;
    assert_eq!(plane.get(&format!("{MAPS}/background")).await.code, 404);
    plane.post(MAPS, &map("odd")).await;
    let odd = delete_with(&plane, &format!("{MAPS}/odd"), &json!({ "propagationPolicy": "Maybe" })).await;
    assert_eq!((odd.code.as_u16(), &odd.json()["reason"]), (422, &json!("Invalid")));
}

#[tokio::test]
async fn a_pod_on_a_node_waits_for_its_node() {
    let plane = Plane::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        })
    };
    plane.post(pods, &pod("unscheduled")).await;
    plane.delete(&format!("{pods}/unscheduled")).await;
    assert_eq!(plane.get(&format!("{pods}/unscheduled")).await.code, 404);

    plane.post(pods, &pod("placed")).await;
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "placed" },
        "target": { "kind": "Node", "name": "here" } });
    let bound = plane.post(&format!("{pods}/placed/binding"), &binding).await;
    assert_eq!(bound.code, 201, "{}", bound.text());
    assert_eq!(plane.post(&format!("{pods}/placed/binding"), &binding).await.code, 409);
    let path = format!("{pods}/placed");
    let dying = plane.delete(&path).await.json();
    assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 30, "{dying}");
    let longer = plane.request("DELETE", &format!("{path}?gracePeriodSeconds=60"), &[], "").await.json();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = plane.request("DELETE", &format!("{path}?gracePeriodSeconds=5"), &[], "").await.json();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    plane.request("DELETE", &format!("{path}?gracePeriodSeconds=0"), &[], "").await;
    assert_eq!(plane.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let plane = Plane::start().await;
    plane.post(MAPS, &labelled("a", "x")).await;
    plane.post(MAPS, &labelled("b", "x")).await;
    plane.post(MAPS, &labelled("c", "y")).await;
    let deleted = plane.delete(&format!("{MAPS}?labelSelector=l%3Dx")).await;
    assert_eq!(deleted.json()["items"].as_array().unwrap().len(), 2, "{}", deleted.text());
    assert_eq!(plane.get(MAPS).await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_namespace_ends_when_it_is_finalized_and_takes_nothing_new() {
    let plane = Plane::start().await;
    let created = plane
        .post("/api/v1/namespaces", &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" } }))
        .await
        .json();
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(created["status"]["phase"], "Active");
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    let deleting = plane.delete("/api/v1/namespaces/n").await.json();
    assert_eq!(deleting["status"]["phase"], "Terminating");
    let late = plane.post("/api/v1/namespaces/n/configmaps", &map("late")).await;
    assert_eq!(
        (late.code.as_u16(), &late.json()["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    let mut empty = deleting;
    empty["spec"]["finalizers"] = json!([]);
    let finalized = plane.put("/api/v1/namespaces/n/finalize", &empty).await;
    assert_eq!(finalized.code, 200, "{}", finalized.text());
    assert_eq!(plane.get("/api/v1/namespaces/n").await.code, 404);
    assert_eq!(plane.delete("/api/v1/namespaces/default").await.code, 403);
}

#[tokio::test]
async fn an_eviction_is_a_delete() {
    let plane = Plane::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    plane.post(pods, &pod).await;
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    assert_eq!(plane.post(&format!("{pods}/p/eviction"), &eviction).await.code, 201);
    assert_eq!(plane.get(&format!("{pods}/p")).await.code, 404);
}
