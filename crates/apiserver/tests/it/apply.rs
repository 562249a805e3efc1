//! Server-side apply and the other patches, through the API.

use serde_json::{Value, json};
use testkit::{Answer, Plane};

use crate::support::{MAPS, WIDGETS, map, widget, with_widgets};

async fn apply(plane: &Plane, path: &str, manager: &str, force: bool, config: &Value) -> Answer {
    let path = format!("{path}?fieldManager={manager}&force={force}");
    plane.patch(&path, "apply-patch+yaml", config).await
}

fn config(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": data })
}

#[tokio::test]
async fn apply_creates_conflicts_and_takes_over() {
    let plane = Plane::start().await;
    let path = format!("{MAPS}/x");
    let created = apply(&plane, &path, "one", false, &config(&json!({ "a": "1" }))).await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.json()["metadata"]["managedFields"][0]["manager"], "one");
    assert_eq!(created.json()["metadata"]["managedFields"][0]["operation"], "Apply");

    let again = apply(&plane, &path, "one", false, &config(&json!({ "a": "1" }))).await;
    assert_eq!(again.code, 200);
    assert_eq!(again.json()["metadata"]["resourceVersion"], created.json()["metadata"]["resourceVersion"]);

    let clash = apply(&plane, &path, "two", false, &config(&json!({ "a": "2" }))).await;
    assert_eq!((clash.code.as_u16(), &clash.json()["reason"]), (409, &json!("Conflict")));
    assert_eq!(clash.json()["details"]["causes"][0]["field"], ".data.a");
    let forced = apply(&plane, &path, "two", true, &config(&json!({ "a": "2" }))).await;
    assert_eq!(forced.json()["data"]["a"], "2");
    // What "one" no longer owns stays when it stops applying it.
    let left = apply(&plane, &path, "one", false, &config(&json!({ "b": "1" }))).await;
    assert_eq!(left.json()["data"], json!({ "a": "2", "b": "1" }), "{}", left.text());
}

#[tokio::test]
async fn apply_asks_for_a_manager_and_the_right_name() {
    let plane = Plane::start().await;
    let nobody = plane.patch(&format!("{MAPS}/x"), "apply-patch+yaml", &config(&json!({}))).await;
    assert_eq!((nobody.code.as_u16(), &nobody.json()["details"]["causes"][0]["field"]), (422, &json!("fieldManager")));
    let other = apply(&plane, &format!("{MAPS}/y"), "one", false, &config(&json!({}))).await;
    assert_eq!(other.code, 400);
}

#[tokio::test]
async fn a_yaml_configuration_is_applied() {
    let plane = Plane::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\ndata:\n  a: b\n";
    let path = format!("{MAPS}/y?fieldManager=k");
    let answer = plane.request("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], yaml).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
}

#[tokio::test]
async fn an_apply_of_status_owns_only_status() {
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("w", 1)).await;
    let path = format!("{WIDGETS}/w");
    let status = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w", "labels": { "a": "b" } },
        "spec": { "size": 9 }, "status": { "phase": "Ready" } });
    let applied = apply(&plane, &format!("{path}/status"), "controller", false, &status).await;
    assert_eq!(applied.code, 200, "{}", applied.text());
    let live = applied.json();
    assert_eq!((&live["spec"]["size"], &live["status"]["phase"]), (&json!(1), &json!("Ready")));
    assert_eq!(live["metadata"].get("labels"), None);
    let entry = live["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["manager"] == "controller")
        .unwrap();
    assert_eq!(entry["subresource"], "status");
    assert_eq!(entry["fieldsV1"], json!({ "f:status": { "f:phase": {} } }));
    assert_eq!(live["metadata"]["generation"], 1);
}

#[tokio::test]
async fn each_patch_type_is_understood() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("p")).await;
    let path = format!("{MAPS}/p");
    let json_patch =
        json!([{ "op": "test", "path": "/data/a", "value": "1" }, { "op": "add", "path": "/data/b", "value": "2" }]);
    assert_eq!(plane.patch(&path, "json-patch+json", &json_patch).await.json()["data"]["b"], "2");
    let merge = json!({ "data": { "b": null } });
    assert_eq!(plane.patch(&path, "merge-patch+json", &merge).await.json()["data"], json!({ "a": "1" }));
    let strategic =
        json!({ "metadata": { "finalizers": ["example.com/x"], "$retainKeys": null }, "data": { "c": "3" } });
    assert_eq!(
        plane.patch(&path, "strategic-merge-patch+json", &json!({ "data": strategic["data"] })).await.json()["data"]["c"],
        "3"
    );
    let failed =
        plane.patch(&path, "json-patch+json", &json!([{ "op": "test", "path": "/data/a", "value": "no" }])).await;
    assert_eq!(failed.code, 422, "{}", failed.text());
    assert_eq!(plane.patch(&path, "cbor", &json!({})).await.code, 415);
    let stale = json!({ "metadata": { "resourceVersion": "1" }, "data": { "z": "z" } });
    assert_eq!(plane.patch(&path, "merge-patch+json", &stale).await.code, 409);
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("w", 1)).await;
    let refused = plane.patch(&format!("{WIDGETS}/w"), "strategic-merge-patch+json", &json!({})).await;
    assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (415, &json!("UnsupportedMediaType")));
}

#[tokio::test]
async fn concurrent_patches_all_land() {
    let plane = std::sync::Arc::new(Plane::start().await);
    plane.post(MAPS, &map("busy")).await;
    let writers = (0..32).map(|index| {
        let plane = plane.clone();
        tokio::spawn(async move {
            let patch = json!({ "data": { format!("k{index}"): "v" } });
            plane.patch(&format!("{MAPS}/busy"), "merge-patch+json", &patch).await.code.as_u16()
        })
    });
    for writer in futures::future::join_all(writers).await {
        assert_eq!(writer.unwrap(), 200);
    }
    let data = plane.get(&format!("{MAPS}/busy")).await.json()["data"].as_object().unwrap().len();
    assert_eq!(data, 33);
}
