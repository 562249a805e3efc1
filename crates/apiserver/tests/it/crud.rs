//! Objects come, change and go, with the metadata rules controllers count on.

use serde_json::json;
use testkit::Plane;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> serde_json::Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

#[tokio::test]
async fn an_object_is_created_read_replaced_and_deleted() {
    let plane = Plane::start().await;
    let created = plane.post(MAPS, &map("one")).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let object = created.json();
    assert!(!object["metadata"]["uid"].as_str().unwrap().is_empty());
    assert_eq!(object["metadata"]["namespace"], "default");
    assert_eq!(plane.get(&format!("{MAPS}/one")).await.json(), object);

    let mut changed = object.clone();
    changed["data"]["a"] = json!("2");
    let replaced = plane.put(&format!("{MAPS}/one"), &changed).await;
    assert_eq!(replaced.code, 200, "{}", replaced.text());
    assert_ne!(replaced.json()["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    assert_eq!(replaced.json()["metadata"]["uid"], object["metadata"]["uid"]);

    let stale = plane.put(&format!("{MAPS}/one"), &changed).await;
    assert_eq!((stale.code.as_u16(), &stale.json()["reason"]), (409, &json!("Conflict")));

    let deleted = plane.delete(&format!("{MAPS}/one")).await;
    assert_eq!(deleted.json()["status"], "Success", "{}", deleted.text());
    let gone = plane.get(&format!("{MAPS}/one")).await;
    assert_eq!(gone.json()["message"], "configmaps \"one\" not found");
    assert_eq!(gone.json()["details"], json!({ "name": "one", "kind": "configmaps" }));
}

#[tokio::test]
async fn writing_the_same_again_keeps_the_resource_version() {
    let plane = Plane::start().await;
    let object = plane.post(MAPS, &map("same")).await.json();
    let path = format!("{MAPS}/same");
    let put = plane.put(&path, &map("same")).await.json();
    assert_eq!(put["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    let patched = plane.patch(&path, "merge-patch+json", &json!({ "data": { "a": "1" } })).await.json();
    assert_eq!(patched["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    let labelled = plane.patch(&path, "merge-patch+json", &json!({ "metadata": { "labels": { "x": "y" } } })).await;
    assert_ne!(labelled.json()["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn names_are_generated_and_refused() {
    let plane = Plane::start().await;
    let mut object = map("x");
    object["metadata"] = json!({ "generateName": "job-" });
    let first = plane.post(MAPS, &object).await.json()["metadata"]["name"].as_str().unwrap().to_owned();
    let second = plane.post(MAPS, &object).await.json()["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(first.starts_with("job-") && first.len() == 9 && first != second, "{first} {second}");

    object["metadata"] = json!({});
    let nameless = plane.post(MAPS, &object).await;
    assert_eq!(nameless.code, 422);
    assert_eq!(nameless.json()["details"]["causes"][0]["field"], "metadata.name");

    let twice = plane.post(MAPS, &map(&first)).await;
    assert_eq!((twice.code.as_u16(), &twice.json()["reason"]), (409, &json!("AlreadyExists")));
    let elsewhere = plane.post("/api/v1/namespaces/nowhere/configmaps", &map("x")).await;
    assert_eq!(elsewhere.json()["message"], "namespaces \"nowhere\" not found");
    let shouting = plane.post(MAPS, &map("UPPER")).await;
    assert_eq!(shouting.code, 422, "{}", shouting.text());
}

#[tokio::test]
async fn a_dry_run_answers_and_keeps_nothing() {
    let plane = Plane::start().await;
    let dry = plane.post(&format!("{MAPS}?dryRun=All"), &map("ghost")).await;
    assert_eq!(dry.code, 201, "{}", dry.text());
    assert_eq!(plane.get(&format!("{MAPS}/ghost")).await.code, 404);
    plane.post(MAPS, &map("real")).await;
    assert_eq!(plane.request("DELETE", &format!("{MAPS}/real?dryRun=All"), &[], "").await.code, 200);
    assert_eq!(plane.get(&format!("{MAPS}/real")).await.code, 200);
    assert_eq!(plane.post(&format!("{MAPS}?dryRun=Some"), &map("x")).await.code, 422);
}

#[tokio::test]
async fn unknown_fields_are_refused_warned_about_or_dropped_as_asked() {
    let plane = Plane::start().await;
    let mut object = map("odd");
    object["dta"] = json!({});
    let strict = plane.post(&format!("{MAPS}?fieldValidation=Strict"), &object).await;
    assert_eq!(strict.code, 400);
    assert!(strict.json()["message"].as_str().unwrap().contains("unknown field \"dta\""), "{}", strict.text());
    let twice = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd"},"data":{"a":"1","a":"2"}}"#;
    let strict = plane.request("POST", &format!("{MAPS}?fieldValidation=Strict"), &[], twice.to_vec()).await;
    assert!(strict.json()["message"].as_str().unwrap().contains("duplicate field \"data.a\""), "{}", strict.text());
    let warned = plane.post(MAPS, &object).await;
    assert_eq!(warned.code, 201);
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"dta\\\"\""]);
    object["metadata"]["name"] = json!("odd-2");
    let ignored = plane.post(&format!("{MAPS}?fieldValidation=Ignore"), &object).await;
    assert!(ignored.warnings().is_empty());
    assert!(ignored.json().get("dta").is_none());
}

#[tokio::test]
async fn status_and_specification_do_not_touch_each_other() {
    let plane = Plane::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] }, "status": { "phase": "Running" },
    });
    let created = plane.post(pods, &pod).await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.json()["status"]["phase"], "Pending");
    assert_eq!(created.json()["metadata"]["generation"], 1);
    let path = format!("{pods}/p");
    let change = json!({ "status": { "phase": "Running" }, "metadata": { "labels": { "a": "b" } } });
    let spec = plane.patch(&path, "merge-patch+json", &change).await.json();
    assert_eq!((&spec["status"]["phase"], &spec["metadata"]["labels"]["a"]), (&json!("Pending"), &json!("b")));
    let change = json!({ "status": { "phase": "Running" }, "spec": { "nodeName": "elsewhere" } });
    let status = plane.patch(&format!("{path}/status"), "merge-patch+json", &change).await.json();
    assert_eq!((&status["status"]["phase"], &status["spec"]["nodeName"]), (&json!("Running"), &json!(null)));
    assert_eq!(status["metadata"]["generation"], 1);
}

#[tokio::test]
async fn yaml_bodies_are_read_and_protobuf_is_refused() {
    let plane = Plane::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  a: \"1\"\n";
    let created = plane.request("POST", MAPS, &[("content-type", "application/yaml")], yaml).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let protobuf = plane.request("POST", MAPS, &[("content-type", "application/vnd.kubernetes.protobuf")], "k8s").await;
    assert_eq!((protobuf.code.as_u16(), &protobuf.json()["reason"]), (415, &json!("UnsupportedMediaType")));
}

#[tokio::test]
async fn secrets_take_plain_text_and_keep_base64() {
    let plane = Plane::start().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" },
        "data": { "b": "YmI=" }, "stringData": { "a": "plain" },
    });
    let created = plane.post(secrets, &secret).await.json();
    assert_eq!(created["data"], json!({ "a": "cGxhaW4=", "b": "YmI=" }));
    assert_eq!(created["type"], "Opaque");
    assert!(created.get("stringData").is_none());
}

#[tokio::test]
async fn services_get_addresses_that_are_given_back() {
    let plane = Plane::start().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "selector": { "a": "b" }, "ports": [{ "port": 80 }] },
        })
    };
    let created = plane.post(services, &service("web")).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let address = created.json()["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.starts_with("10."), "{address}");
    assert_eq!(created.json()["spec"]["ports"][0]["targetPort"], 80);
    let mut other = service("other");
    other["spec"]["clusterIP"] = json!(address);
    assert_eq!(plane.post(services, &other).await.code, 422);
    plane.delete(&format!("{services}/web")).await;
    assert_eq!(plane.post(services, &other).await.code, 201);
    let own = plane.get(&format!("{services}/kubernetes")).await.json();
    assert_eq!(own["spec"]["clusterIP"], "10.96.0.1");
}
