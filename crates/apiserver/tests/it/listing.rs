//! Lists: paging over one moment, selectors, revisions.

use apiserver::user::User;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use testkit::Plane;
use tower::ServiceExt as _;

use crate::support::{MAPS, labelled, map};

fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_are_of_one_moment() {
    let plane = Plane::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        plane.post(MAPS, &map(name)).await;
    }
    let first = plane.get(&format!("{MAPS}?limit=2")).await.json();
    assert_eq!(first["kind"], "ConfigMapList");
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    plane.delete(&format!("{MAPS}/d")).await;
    plane.post(MAPS, &map("bb")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = plane.get(&format!("{MAPS}?limit=2&continue={token}")).await.json();
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = plane.get(&format!("{MAPS}?limit=2&continue={token}")).await.json();
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["metadata"].get("continue"), None);
    assert_eq!(plane.get(&format!("{MAPS}?limit=2&continue=nonsense")).await.code, 400);
}

#[tokio::test]
async fn selectors_choose_and_paging_does_not_skip() {
    let plane = Plane::start().await;
    for index in 0..20 {
        plane.post(MAPS, &labelled(&format!("m{index:02}"), if index % 5 == 0 { "yes" } else { "no" })).await;
    }
    let all = plane.get(&format!("{MAPS}?labelSelector=l+in+(yes)")).await.json();
    assert_eq!(names(&all), ["m00", "m05", "m10", "m15"]);
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let page = plane.get(&format!("{MAPS}?labelSelector=l%3Dyes&limit=3&continue={token}")).await.json();
        found.extend(names(&page));
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, ["m00", "m05", "m10", "m15"]);
    let by_name = plane.get(&format!("{MAPS}?fieldSelector=metadata.name%3Dm03")).await.json();
    assert_eq!(names(&by_name), ["m03"]);
    let bad = plane.get(&format!("{MAPS}?labelSelector=l+in+")).await;
    assert_eq!((bad.code.as_u16(), &bad.json()["reason"]), (400, &json!("BadRequest")));
    let unknown = plane.get(&format!("{MAPS}?fieldSelector=data.a%3D1")).await;
    assert_eq!(
        unknown.json()["message"],
        "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
}

#[tokio::test]
async fn a_list_can_be_of_an_earlier_moment() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    let revision = plane.get(MAPS).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    plane.post(MAPS, &map("b")).await;
    let exact = plane.get(&format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")).await.json();
    assert_eq!(names(&exact), ["a"]);
    let newer = plane.get(&format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")).await.json();
    assert_eq!(names(&newer), ["a", "b"]);
    let future = plane.get(&format!("{MAPS}?resourceVersion=99999")).await;
    assert_eq!((future.code.as_u16(), &future.json()["reason"]), (504, &json!("Timeout")));
    assert_eq!(future.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(plane.get(&format!("{MAPS}?resourceVersionMatch=Exact")).await.code, 422);
}

#[tokio::test]
async fn all_namespaces_are_listed_without_one() {
    let plane = Plane::start().await;
    plane.post(MAPS, &map("a")).await;
    plane.post("/api/v1/namespaces/kube-system/configmaps", &map("b")).await;
    assert_eq!(names(&plane.get("/api/v1/configmaps").await.json()), ["a", "b"]);
    assert_eq!(
        names(&plane.get("/api/v1/namespaces").await.json()),
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
}

#[tokio::test]
async fn large_answers_are_packed_for_those_who_ask() {
    let plane = Plane::start().await;
    let mut large = map("large");
    large["data"]["filling"] = "x".repeat(200_000).into();
    plane.post(MAPS, &large).await;
    let packed = |path: String| {
        let service = plane.server().service_as::<Body>(User::master("admin"));
        let request = Request::get(path).header("accept-encoding", "gzip").body(Body::empty()).unwrap();
        async move {
            let response = service.oneshot(request).await.unwrap();
            let encoding = response.headers().get("content-encoding").cloned();
            (encoding, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap())
        }
    };
    let (encoding, body) = packed(MAPS.to_owned()).await;
    assert_eq!(encoding.unwrap(), "gzip");
    assert!(body.starts_with(&[0x1f, 0x8b]) && body.len() < 20_000, "{} bytes", body.len());
    let (encoding, body) = packed("/api/v1/namespaces/default".to_owned()).await;
    assert_eq!((encoding, body.first()), (None, Some(&b'{')), "small ones are not worth it");
}
