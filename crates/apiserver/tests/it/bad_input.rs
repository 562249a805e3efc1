//! Nonsense gets the right refusal, never a panic, never much memory.

use rstest::rstest;
use serde_json::json;
use testkit::Plane;

use crate::support::{MAPS, map};

#[rstest]
#[case::encoded_slash("/api/v1/namespaces/default/configmaps/a%2Fb", 400)]
#[case::dot_segment("/api/v1/namespaces/../secrets", 400)]
#[case::encoded_dots("/api/v1/namespaces/%2e%2e/secrets", 400)]
#[case::empty_segment("/api/v1//namespaces", 400)]
#[case::control_character("/api/v1/namespaces/a%00b", 400)]
#[case::bad_escape("/api/v1/namespaces/%zz", 400)]
#[case::bad_utf8("/api/v1/namespaces/%ff", 400)]
#[case::backslash("/api/v1/namespaces/a%5Cb", 400)]
#[case::too_deep("/api/v1/namespaces/a/pods/b/log/c/d", 404)]
#[case::unknown_kind("/api/v1/unicorns", 404)]
#[case::unknown_group("/apis/nothing/v1/x", 404)]
#[case::unknown_version("/apis/apps/v2/deployments", 404)]
#[case::unknown_subresource("/api/v1/namespaces/default/configmaps/a/status", 404)]
#[case::namespaced_cluster_kind("/api/v1/namespaces/default/nodes", 404)]
#[case::object_without_namespace("/api/v1/configmaps/a", 404)]
#[case::outside("/etc/passwd", 404)]
#[case::bad_number("/api/v1/namespaces?limit=many", 400)]
#[case::negative_number("/api/v1/namespaces?timeoutSeconds=-1", 400)]
#[case::bad_match("/api/v1/namespaces?resourceVersion=1&resourceVersionMatch=Nearly", 422)]
#[tokio::test]
async fn strange_paths_are_refused(#[case] path: &str, #[case] code: u16) {
    let plane = Plane::start().await;
    let answer = plane.get(path).await;
    assert_eq!(answer.code, code, "{}", answer.text());
    assert_eq!((&answer.json()["kind"], &answer.json()["code"]), (&json!("Status"), &json!(code)));
}

#[rstest]
#[case::nothing("", 400)]
#[case::not_json("{", 400)]
#[case::trailing("{} {}", 400)]
#[case::a_list("[]", 400)]
#[case::a_number("7", 400)]
#[case::null("null", 400)]
#[case::wrong_kind(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}"#, 400)]
#[case::wrong_version(r#"{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"x"}}"#, 400)]
#[case::kind_is_a_number(r#"{"kind":7}"#, 400)]
#[case::metadata_is_text(r#"{"metadata":"x"}"#, 400)]
#[case::name_is_a_number(r#"{"metadata":{"name":7}}"#, 400)]
#[case::labels_are_a_list(r#"{"metadata":{"name":"x","labels":[]}}"#, 400)]
#[case::label_is_a_number(r#"{"metadata":{"name":"x","labels":{"a":1}}}"#, 400)]
#[case::data_is_text(r#"{"metadata":{"name":"x"},"data":"x"}"#, 400)]
#[case::data_is_deep(r#"{"metadata":{"name":"x"},"data":{"a":{"b":1}}}"#, 400)]
#[case::bad_label(r#"{"metadata":{"name":"x","labels":{"a b":"c"}}}"#, 422)]
#[case::bad_key(r#"{"metadata":{"name":"x"},"data":{"a/b":"c"}}"#, 422)]
#[case::another_namespace(r#"{"metadata":{"name":"x","namespace":"kube-system"}}"#, 400)]
#[case::a_revision(r#"{"metadata":{"name":"x","resourceVersion":"7"}}"#, 400)]
#[tokio::test]
async fn strange_bodies_are_refused(#[case] body: &'static str, #[case] code: u16) {
    let plane = Plane::start().await;
    let answer = plane.request("POST", MAPS, &[("content-type", "application/json")], body).await;
    assert_eq!(answer.code, code, "{}", answer.text());
    assert_eq!(answer.json()["kind"], "Status");
    assert_eq!(plane.get(&format!("{MAPS}/x")).await.code, 404);
}

#[tokio::test]
async fn huge_and_deep_bodies_are_refused() {
    let plane = Plane::start().await;
    let mut huge = map("huge");
    huge["data"]["a"] = json!("x".repeat(3 * 1024 * 1024));
    let answer = plane.post(MAPS, &huge).await;
    assert_eq!((answer.code.as_u16(), &answer.json()["reason"]), (413, &json!("RequestEntityTooLarge")));
    let deep = format!("{}{}", "{\"a\":".repeat(100_000), "1");
    assert_eq!(plane.request("POST", MAPS, &[], deep.clone()).await.code, 400);
    let yaml = plane.request("POST", MAPS, &[("content-type", "application/yaml")], deep).await;
    assert_eq!(yaml.code, 400);
    let bombs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                 d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                 g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    assert_eq!(plane.request("POST", MAPS, &[("content-type", "application/yaml")], bombs).await.code, 400);
    let bad = plane.request("POST", MAPS, &[], b"{\"metadata\":{\"name\":\"\xff\"}}".to_vec()).await;
    assert_eq!(bad.code, 400);
}

#[rstest]
#[case("merge-patch+json", "{", 400)]
#[case("merge-patch+json", "[]", 400)]
#[case("merge-patch+json", r#"{"metadata":{"name":"y"}}"#, 400)]
#[case("merge-patch+json", r#"{"kind":"Pod"}"#, 400)]
#[case("merge-patch+json", r#"{"data":7}"#, 422)]
#[case("json-patch+json", "{}", 400)]
#[case("json-patch+json", r#"[{"op":"fly","path":"/a"}]"#, 422)]
#[case("json-patch+json", r#"[{"op":"remove","path":"/nowhere"}]"#, 422)]
#[case("json-patch+json", r#"[{"op":"replace","path":"","value":7}]"#, 422)]
#[case("strategic-merge-patch+json", r#"{"$patch":"fly"}"#, 400)]
#[case("apply-patch+yaml", "x: [", 400)]
#[tokio::test]
async fn strange_patches_are_refused(#[case] kind: &str, #[case] body: &'static str, #[case] code: u16) {
    let plane = Plane::start().await;
    let before = plane.post(MAPS, &map("x")).await.json();
    let content_type = format!("application/{kind}");
    let path = format!("{MAPS}/x?fieldManager=m");
    let answer = plane.request("PATCH", &path, &[("content-type", content_type.as_str())], body).await;
    assert_eq!(answer.code, code, "{}", answer.text());
    assert_eq!(plane.get(&format!("{MAPS}/x")).await.json(), before);
}

#[tokio::test]
async fn verbs_that_make_no_sense_are_not_allowed() {
    let plane = Plane::start().await;
    for (method, path) in [
        ("PUT", MAPS),
        ("PATCH", MAPS),
        ("POST", "/api/v1/namespaces/default/configmaps/x"),
        ("OPTIONS", MAPS),
        ("POST", "/version"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ] {
        let answer = plane.request(method, path, &[], "{}").await;
        assert_eq!(
            (answer.code.as_u16(), &answer.json()["reason"]),
            (405, &json!("MethodNotAllowed")),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let plane = Plane::with(|config| config.patience = std::time::Duration::from_millis(50)).await;
    let never = axum::body::Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let answer = plane.request("POST", MAPS, &[], never).await;
    assert_eq!((answer.code.as_u16(), &answer.json()["reason"]), (408, &json!("Timeout")));
}

#[tokio::test]
async fn too_many_requests_at_once_are_told_to_come_back() {
    let plane = std::sync::Arc::new(Plane::with(|config| config.in_flight = 1).await);
    let (started, waiting) = tokio::sync::oneshot::channel();
    let slow = axum::body::Body::from_stream(futures::stream::once(async move {
        let _ = started.send(());
        std::future::pending::<Result<bytes::Bytes, std::io::Error>>().await
    }));
    let other = plane.clone();
    let slow = tokio::spawn(async move { other.request("POST", MAPS, &[], slow).await });
    waiting.await.unwrap();
    let answer = plane.get(MAPS).await;
    assert_eq!((answer.code.as_u16(), answer.headers["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(plane.get("/healthz").await.code, 200);
    slow.abort();
}
