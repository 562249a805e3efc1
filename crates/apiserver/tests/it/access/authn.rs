use std::sync::Arc;

use apiserver::user::User;
use axum::body::Body;
use axum::{Extension, Json, Router};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::House;

const POLICY: &str = r"
kind: ClusterRole
metadata: { name: stand-in }
rules:
- { apiGroups: [''], resources: [users], resourceNames: [ann], verbs: [impersonate] }
- { apiGroups: [''], resources: [groups], resourceNames: [readers], verbs: [impersonate] }
- { apiGroups: [''], resources: [serviceaccounts], verbs: [impersonate] }
- { apiGroups: [authentication.k8s.io], resources: [userextras/scopes], resourceNames: [view], verbs: [impersonate] }
---
kind: ClusterRoleBinding
metadata: { name: bot }
roleRef: { kind: ClusterRole, name: stand-in }
subjects: [{ kind: ServiceAccount, namespace: team, name: bot }]
";

struct Door {
    routes: Router,
    token: String,
    _house: House,
}

/// Routes that answer with the user they see.
async fn door() -> Door {
    let house = House::new();
    house.roles(POLICY).await;
    let account = json!({ "metadata": { "namespace": "team", "name": "bot", "uid": "account-1" } });
    house.put("/serviceaccounts", &account).await;
    let answer = house.access.create_token("team", "bot", json!({}), Timestamp::now()).unwrap();
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let who = |Extension(user): Extension<Arc<User>>| async move { Json(json!(*user)) };
    Door { routes: house.access.guard(Router::new().fallback(who)), token, _house: house }
}

impl Door {
    async fn knock(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, value.replace("TOKEN", &self.token));
        }
        let response = self.routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

#[rstest]
#[case("/healthz", 200)]
#[case("/livez", 200)]
#[case("/livez/ping", 200)]
#[case("/readyz", 200)]
#[case("/version", 200)]
#[case("/", 401)]
#[case("/api", 401)]
#[case("/api/v1/pods", 401)]
#[case("/metrics", 401)]
#[case("/openapi/v3", 401)]
#[case("/healthzz", 401)]
#[case("/version-of-mine", 401)]
#[tokio::test]
async fn without_credentials_only_health_and_version(#[case] path: &str, #[case] code: u16) {
    let (status, body) = door().await.knock(path, &[]).await;
    assert_eq!(status.as_u16(), code);
    if code == 401 {
        assert_eq!(body["kind"], "Status");
        assert_eq!(body["reason"], "Unauthorized");
    } else {
        assert_eq!(body["username"], "system:anonymous");
    }
}

#[rstest]
#[case("Bearer nonsense")]
#[case("Bearer ")]
#[case("Bearer")]
#[case("Basic YWRtaW46YWRtaW4=")]
#[case("TOKEN")]
#[case("Bearer TOKENx")]
#[tokio::test]
async fn bad_credentials_are_refused_even_on_public_paths(#[case] header: &str) {
    let door = door().await;
    for path in ["/api/v1/pods", "/version"] {
        let (status, body) = door.knock(path, &[("authorization", header)]).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert_eq!(body["message"], "Unauthorized");
    }
}

#[tokio::test]
async fn a_good_token_gets_in() {
    let (status, body) = door().await.knock("/api", &[("authorization", "bearer TOKEN")]).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["username"], "system:serviceaccount:team:bot");
}

#[rstest]
#[case(&[("impersonate-user", "ann")], 200)]
#[case(&[("impersonate-user", "ann"), ("impersonate-group", "readers")], 200)]
#[case(&[("impersonate-user", "ann"), ("impersonate-extra-scopes", "view")], 200)]
#[case(&[("impersonate-user", "system:serviceaccount:x:y")], 200)]
#[case(&[("impersonate-user", "bob")], 403)]
#[case(&[("impersonate-user", "ann"), ("impersonate-group", "system:masters")], 403)]
#[case(&[("impersonate-user", "ann"), ("impersonate-group", "readers"), ("impersonate-group", "system:masters")], 403)]
#[case(&[("impersonate-user", "ann"), ("impersonate-uid", "1")], 403)]
#[case(&[("impersonate-user", "ann"), ("impersonate-extra-scopes", "edit")], 403)]
#[case(&[("impersonate-user", "ann"), ("impersonate-extra-other", "view")], 403)]
#[case(&[("impersonate-group", "readers")], 400)]
#[case(&[("impersonate-user", "ann"), ("impersonate-nonsense", "x")], 400)]
#[tokio::test]
async fn impersonation_needs_the_right_to_each_part(#[case] headers: &[(&str, &str)], #[case] code: u16) {
    let mut all = vec![("authorization", "Bearer TOKEN")];
    all.extend_from_slice(headers);
    let (status, body) = door().await.knock("/api", &all).await;
    assert_eq!(status.as_u16(), code, "{body}");
    if code == 200 {
        assert_eq!(body["username"], headers[0].1);
        assert!(body["groups"].as_array().unwrap().contains(&json!("system:authenticated")));
    }
}

#[tokio::test]
async fn nobody_may_impersonate_without_credentials() {
    let (status, _) = door().await.knock("/version", &[("impersonate-user", "ann")]).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn callers_in_this_process_impersonate_by_the_same_rules() {
    let house = House::new();
    house.roles(POLICY).await;
    let who = |Extension(user): Extension<Arc<User>>| async move { Json(json!(*user)) };
    let part = User::service_account("team", "bot", "account-1");
    let routes = house.access.trust(part, Router::new().fallback(who));
    let door = Door { routes, token: String::new(), _house: house };
    let (_, body) = door.knock("/api", &[]).await;
    assert_eq!(body["username"], "system:serviceaccount:team:bot");
    let (_, body) = door.knock("/api", &[("impersonate-user", "ann")]).await;
    assert_eq!(body["username"], "ann");
    let (status, _) = door.knock("/api", &[("impersonate-user", "bob")]).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}
