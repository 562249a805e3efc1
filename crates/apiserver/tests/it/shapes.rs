//! Answers in the shape the client asks for.

use serde_json::json;
use testkit::Plane;

use crate::support::{MAPS, WIDGETS, map, widget, with_widgets};

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn tables_have_columns_rows_and_as_much_of_the_object_as_asked() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    let list = plane.request("GET", MAPS, &[("accept", TABLE)], "").await.json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<&str> =
        list["columnDefinitions"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(list["rows"][0]["cells"][0], "a");
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let full = plane.request("GET", &format!("{MAPS}/a?includeObject=Object"), &[("accept", TABLE)], "").await.json();
    assert_eq!(full["rows"][0]["object"]["data"]["a"], "1");
    let none = plane.request("GET", &format!("{MAPS}?includeObject=None"), &[("accept", TABLE)], "").await.json();
    assert_eq!(none["rows"][0]["object"], json!(null));
    assert_eq!(plane.request("GET", &format!("{MAPS}?includeObject=Half"), &[("accept", TABLE)], "").await.code, 400);
}

#[tokio::test]
async fn custom_resources_print_their_columns() {
    let plane = with_widgets().await;
    plane.post(WIDGETS, &widget("w", 7)).await;
    let table = plane.request("GET", WIDGETS, &[("accept", TABLE)], "").await.json();
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"], json!(["w", 7]));
}

#[tokio::test]
async fn a_pod_says_what_it_is_doing() {
    let plane = Plane::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    plane.post(pods, &pod).await;
    let waiting = json!({ "status": { "containerStatuses": [{ "name": "c", "ready": false, "restartCount": 3, "image": "i", "imageID": "",
        "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] } });
    plane.patch(&format!("{pods}/p/status"), "merge-patch+json", &waiting).await;
    let table = plane.request("GET", &format!("{pods}/p"), &[("accept", TABLE)], "").await.json();
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..4],
        [json!("p"), json!("0/1"), json!("CrashLoopBackOff"), json!("3")]
    );
}

#[tokio::test]
async fn metadata_alone_can_be_had() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let object = plane.request("GET", &format!("{MAPS}/a"), &[("accept", one)], "").await.json();
    assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
    assert_eq!(object.get("data"), None);
    let many = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = plane.request("GET", MAPS, &[("accept", many)], "").await.json();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_or_replaced() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    let path = format!("{MAPS}/a");
    let both =
        plane.request("GET", &path, &[("accept", "application/vnd.kubernetes.protobuf,application/json")], "").await;
    assert_eq!((both.code.as_u16(), both.headers["content-type"].to_str().unwrap()), (200, "application/json"));
    let only = plane.request("GET", &path, &[("accept", "application/vnd.kubernetes.protobuf")], "").await;
    assert_eq!((only.code.as_u16(), &only.json()["reason"]), (406, &json!("NotAcceptable")));
    let pretty = plane.get(&format!("{path}?pretty=true")).await.text();
    assert!(pretty.contains("\n  \"apiVersion\": \"v1\""), "{pretty}");
}

#[tokio::test]
async fn events_are_one_thing_under_two_names() {
    let plane = Plane::start().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" },
        "eventTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string(), "reportingController": "test", "reportingInstance": "t-1",
        "action": "Testing", "reason": "Tested", "type": "Normal", "note": "words",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" },
    });
    let created = plane.post("/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.json()["note"], "words");
    let core = plane.get("/api/v1/namespaces/default/events/e").await.json();
    assert_eq!(
        (&core["apiVersion"], &core["message"], &core["involvedObject"]["name"]),
        (&json!("v1"), &json!("words"), &json!("p"))
    );
    let found = plane
        .get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp,reason%3DTested")
        .await
        .json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let table = plane.request("GET", "/api/v1/namespaces/default/events", &[("accept", TABLE)], "").await.json();
    assert_eq!(table["rows"][0]["cells"][3], "pod/p");
}
