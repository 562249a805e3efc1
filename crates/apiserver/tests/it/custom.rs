//! Custom resources: definitions become kinds, live.

use serde_json::json;
use testkit::Plane;

use crate::support::{DEFINITIONS, Events, MAPS, WIDGETS, definition, widget, with_widgets};

#[tokio::test]
async fn a_definition_is_served_as_soon_as_it_is_stored() {
    let plane = Plane::start().await;
    assert_eq!(plane.get(WIDGETS).await.code, 404);
    let created = plane.post(DEFINITIONS, &definition()).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let conditions = created.json()["status"]["conditions"].clone();
    for kind in ["NamesAccepted", "Established"] {
        assert!(
            conditions.as_array().unwrap().iter().any(|one| one["type"] == kind && one["status"] == "True"),
            "{conditions}"
        );
    }
    assert_eq!(created.json()["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(created.json()["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(plane.get(WIDGETS).await.json()["kind"], "WidgetList");
}

#[tokio::test]
async fn objects_are_defaulted_pruned_and_validated() {
    let plane = with_widgets().await;
    let mut object = widget("w", 3);
    object["spec"]["extra"] = json!(1);
    let created = plane.post(WIDGETS, &object).await;
    assert_eq!(created.json()["spec"], json!({ "size": 3, "color": "blue" }), "{}", created.text());
    assert_eq!(created.json()["metadata"]["generation"], 1);
    assert_eq!(created.warnings(), ["299 - \"unknown field \\\"spec.extra\\\"\""]);

    let mut wrong = widget("x", 3);
    wrong["spec"]["size"] = json!("big");
    let refused = plane.post(WIDGETS, &wrong).await;
    assert_eq!((refused.code.as_u16(), &refused.json()["details"]["causes"][0]["field"]), (422, &json!("spec.size")));
    let refused = plane.post(WIDGETS, &widget("x", -1)).await;
    assert_eq!(refused.code, 422);
    let missing = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "x" } });
    assert_eq!(plane.post(WIDGETS, &missing).await.json()["details"]["causes"][0]["field"], "spec");
}

#[tokio::test]
async fn rules_are_enforced_with_their_message() {
    let plane = with_widgets().await;
    let refused = plane.post(WIDGETS, &widget("x", 11)).await;
    assert_eq!(refused.code, 422, "{}", refused.text());
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("size must not exceed 10"), "{message}");
}

#[tokio::test]
async fn generation_and_status_follow_the_subresource() {
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("w", 1)).await;
    let path = format!("{WIDGETS}/w");
    let status = plane
        .patch(
            &format!("{path}/status"),
            "merge-patch+json",
            &json!({ "status": { "phase": "Ready" }, "spec": { "size": 5 } }),
        )
        .await;
    assert_eq!(
        (&status.json()["spec"]["size"], &status.json()["metadata"]["generation"]),
        (&json!(1), &json!(1)),
        "{}",
        status.text()
    );
    let spec = plane
        .patch(&path, "merge-patch+json", &json!({ "spec": { "size": 5 }, "status": { "phase": "Odd" } }))
        .await
        .json();
    assert_eq!((&spec["status"]["phase"], &spec["metadata"]["generation"]), (&json!("Ready"), &json!(2)));
    let unconditional = plane.put(&path, &widget("w", 6)).await;
    assert_eq!(
        (unconditional.code.as_u16(), &unconditional.json()["details"]["causes"][0]["field"]),
        (422, &json!("metadata.resourceVersion"))
    );
}

#[tokio::test]
async fn scale_reads_and_writes_one_number() {
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("w", 1)).await;
    let path = format!("{WIDGETS}/w/scale");
    let scale = plane.get(&path).await.json();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(0)));
    let patched = plane.patch(&path, "merge-patch+json", &json!({ "spec": { "replicas": 4 } })).await;
    assert_eq!(patched.json()["spec"]["replicas"], 4, "{}", patched.text());
    assert_eq!(plane.get(&format!("{WIDGETS}/w")).await.json()["spec"]["replicas"], 4);
    let mut put = patched.json();
    put["spec"]["replicas"] = json!(2);
    assert_eq!(plane.put(&path, &put).await.json()["spec"]["replicas"], 2);
    put["spec"]["replicas"] = json!(-1);
    put["metadata"]["resourceVersion"] = json!("");
    assert_eq!(plane.put(&path, &put).await.code, 422);
}

#[tokio::test]
async fn selectable_fields_select() {
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("plain", 1)).await;
    let mut red = widget("red", 1);
    red["spec"]["color"] = json!("red");
    plane.post(WIDGETS, &red).await;
    let found = plane.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).await.json();
    assert_eq!(found["items"][0]["metadata"]["name"], "red");
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_first() {
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("a", 1)).await;
    plane.post(WIDGETS, &widget("b", 1)).await;
    let mut events = Events::open(
        &plane,
        &format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3Dwidgets.example.com"),
        "*/*",
    )
    .await;
    assert_eq!(events.brief().await.0, "ADDED");
    assert_eq!(plane.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.code, 200);
    loop {
        let (kind, _) = events.brief().await;
        if kind == "DELETED" {
            break;
        }
    }
    while plane.get(WIDGETS).await.code != 404 {
        tokio::task::yield_now().await;
    }
    assert_eq!(plane.post(DEFINITIONS, &definition()).await.code, 201);
    assert_eq!(plane.get(WIDGETS).await.json()["items"], json!([]));
}

#[tokio::test]
async fn versions_share_their_objects() {
    let plane = Plane::start().await;
    let mut two = definition();
    let mut beta = two["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    beta["deprecated"] = json!(true);
    two["spec"]["versions"].as_array_mut().unwrap().push(beta);
    assert_eq!(plane.post(DEFINITIONS, &two).await.code, 201);
    plane.post(WIDGETS, &widget("w", 1)).await;
    let old = plane.get("/apis/example.com/v1beta1/namespaces/default/widgets/w").await;
    assert_eq!(old.json()["apiVersion"], "example.com/v1beta1");
    assert_eq!(old.warnings(), ["299 - \"example.com/v1beta1 Widget is deprecated\""]);
    let path = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let mut object = widget("x", 2);
    object["apiVersion"] = json!("example.com/v1beta1");
    assert_eq!(plane.post(path, &object).await.json()["apiVersion"], "example.com/v1beta1");
    assert_eq!(plane.get(&format!("{WIDGETS}/x")).await.json()["apiVersion"], "example.com/v1");
}

#[tokio::test]
async fn bad_definitions_are_refused_with_the_field() {
    let plane = Plane::start().await;
    let mut misnamed = definition();
    misnamed["metadata"]["name"] = json!("other.example.com");
    assert_eq!(plane.post(DEFINITIONS, &misnamed).await.json()["details"]["causes"][0]["field"], "metadata.name");
    let mut unstored = definition();
    unstored["spec"]["versions"][0]["storage"] = json!(false);
    assert_eq!(plane.post(DEFINITIONS, &unstored).await.json()["details"]["causes"][0]["field"], "spec.versions");
    let mut broken = definition();
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = json!({});
    let refused = plane.post(DEFINITIONS, &broken).await;
    assert_eq!(refused.code, 422, "{}", refused.text());
    let mut webhook = definition();
    webhook["spec"]["conversion"] = json!({ "strategy": "Webhook" });
    assert_eq!(
        plane.post(DEFINITIONS, &webhook).await.json()["details"]["causes"][0]["field"],
        "spec.conversion.strategy"
    );
    let mut rule = definition();
    rule["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{ "rule": "self.size <" }]);
    assert_eq!(plane.post(DEFINITIONS, &rule).await.code, 422);
}

#[tokio::test]
async fn taken_names_are_a_condition_until_they_are_free() {
    let plane = with_widgets().await;
    let mut other = definition();
    other["metadata"]["name"] = json!("gadgets.example.com");
    other["spec"]["names"] = json!({ "kind": "Gadget", "plural": "gadgets", "shortNames": ["wd"] });
    let created = plane.post(DEFINITIONS, &other).await.json();
    let accepted = created["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "NamesAccepted")
        .unwrap()
        .clone();
    assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("False"), &json!("ShortNamesConflict")));
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    assert_eq!(plane.get(gadgets).await.code, 404);
    let mut events = Events::open(
        &plane,
        &format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3Dgadgets.example.com"),
        "*/*",
    )
    .await;
    events.next().await;
    plane.delete(&format!("{DEFINITIONS}/widgets.example.com")).await;
    let changed = events.next().await.unwrap();
    assert_eq!(changed["object"]["status"]["acceptedNames"]["plural"], "gadgets", "{changed}");
    assert_eq!(plane.get(gadgets).await.code, 200);
}

#[tokio::test]
async fn definitions_survive_a_restart_of_the_server() {
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("w", 1)).await;
    let tokens = apiserver::tokens::Tokens::ephemeral().unwrap();
    let access = apiserver::access::Access::new(plane.store().clone(), tokens);
    let second = apiserver::ApiServer::new(apiserver::Config::new(plane.store().clone(), access));
    second.start().await.unwrap();
    let client =
        kube::Client::new(second.service_as::<kube::client::Body>(apiserver::user::User::master("a")), "default");
    let request = axum::http::Request::get(format!("{WIDGETS}/w")).body(Vec::new()).unwrap();
    let object: serde_json::Value = client.request(request).await.unwrap();
    assert_eq!(object["spec"]["size"], 1);
    let request = axum::http::Request::get(MAPS).body(Vec::new()).unwrap();
    assert!(client.request::<serde_json::Value>(request).await.is_ok());
    second.close();
}
