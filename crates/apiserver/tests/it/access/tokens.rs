use apiserver::access::Access;
use apiserver::tokens::{ISSUER, Tokens};
use jiff::{Timestamp, ToSpan as _};
use rstest::rstest;
use serde_json::{Value, json};

use super::House;

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

async fn house() -> House {
    let house = House::new();
    let account = json!({ "metadata": { "namespace": "team", "name": "bot", "uid": "account-1" } });
    house.put("/serviceaccounts", &account).await;
    house.put("/pods", &pod("pod-1", "bot")).await;
    house
}

fn pod(uid: &str, account: &str) -> Value {
    json!({ "metadata": { "namespace": "team", "name": "p", "uid": uid }, "spec": { "serviceAccountName": account } })
}

fn token(access: &Access, spec: &Value) -> String {
    let answer = access.create_token("team", "bot", json!({ "spec": spec }), now()).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

fn bound_to_pod() -> Value {
    json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "p" } })
}

#[tokio::test]
async fn a_token_names_its_service_account_and_pod() {
    let house = house().await;
    let token = token(&house.access, &bound_to_pod());
    let user = house.access.verify_token(&token, &[], now()).unwrap().user;
    assert_eq!(user.name, "system:serviceaccount:team:bot");
    assert_eq!(user.uid, "account-1");
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"]);
    assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["pod-1"]);
}

#[tokio::test]
async fn a_token_ends_on_time() {
    let house = house().await;
    let answer =
        house.access.create_token("team", "bot", json!({ "spec": { "expirationSeconds": 600 } }), now()).unwrap();
    assert_eq!(answer["status"]["expirationTimestamp"], "2026-11-15T12:10:00Z");
    let token = answer["status"]["token"].as_str().unwrap();
    let after = |seconds: i64| house.access.verify_token(token, &[], now() + seconds.seconds());
    assert!(after(599).is_ok());
    assert_eq!(after(600).err().unwrap().to_string(), "expired");
    assert_eq!(after(-1).err().unwrap().to_string(), "not valid yet");
}

#[tokio::test]
async fn a_token_is_only_good_for_its_audience() {
    let house = house().await;
    let token = token(&house.access, &json!({ "audiences": ["vault", "other"] }));
    assert_eq!(house.access.verify_token(&token, &[], now()).err().unwrap().to_string(), "issued for another audience");
    let asked = ["vault".to_owned(), ISSUER.to_owned()];
    assert_eq!(house.access.verify_token(&token, &asked, now()).unwrap().audiences, ["vault"]);
}

#[tokio::test]
async fn deleting_what_a_token_is_bound_to_revokes_it() {
    let house = house().await;
    let bound = token(&house.access, &bound_to_pod());
    let free = token(&house.access, &json!({}));
    let check =
        |token: &str| house.access.verify_token(token, &[], now()).map(|_| ()).map_err(|error| error.to_string());
    // Another Pod of the same name is another Pod.
    house.put("/pods", &pod("pod-2", "bot")).await;
    assert_eq!(check(&bound), Err("the Pod it is bound to is gone".into()));
    house.put("/pods", &pod("pod-1", "bot")).await;
    assert_eq!(check(&bound), Ok(()));
    house.remove("/pods", "team", "p").await;
    assert_eq!(check(&bound), Err("the Pod it is bound to is gone".into()));
    assert_eq!(check(&free), Ok(()));
    house.remove("/serviceaccounts", "team", "bot").await;
    assert_eq!(check(&free), Err("the service account it is bound to is gone".into()));
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_may_finish() {
    let house = house().await;
    let token = token(&house.access, &bound_to_pod());
    let mut deleting = pod("pod-1", "bot");
    deleting["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:30Z".into();
    house.put("/pods", &deleting).await;
    let after = |seconds: i64| house.access.verify_token(&token, &[], now() + seconds.seconds()).is_ok();
    assert!(after(89));
    assert!(!after(90));
}

#[tokio::test]
async fn foreign_and_forged_tokens_prove_nothing() {
    let house = house().await;
    let good = token(&house.access, &json!({}));
    let foreign = token(&Access::new(house.store.clone(), Tokens::ephemeral().unwrap()), &json!({}));
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let unsigned = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, r#"{"alg":"none","typ":"JWT"}"#);
    let (_, foreign_claims) = foreign.split_once('.').unwrap();
    let forged = [
        foreign.clone(),
        String::new(),
        "nonsense".into(),
        format!("{header}.{claims}."),
        format!("{unsigned}.{claims}."),
        format!("{unsigned}.{claims}.{signature}"),
        format!("{header}.{}.{signature}", foreign_claims.split_once('.').unwrap().0),
    ];
    for token in forged {
        let error = house.access.verify_token(&token, &[], now()).err().expect(&token);
        assert_eq!(error.to_string(), "malformed, foreign or forged");
    }
}

#[rstest]
#[case(json!({ "expirationSeconds": 599 }), 422)]
#[case(json!({ "expirationSeconds": 4_294_967_297_i64 }), 422)]
#[case(json!({ "expirationSeconds": "soon" }), 400)]
#[case(json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "none" } }), 404)]
#[case(json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "pod-0" } }), 409)]
#[case(json!({ "boundObjectRef": { "kind": "Deployment", "apiVersion": "apps/v1", "name": "p" } }), 400)]
#[tokio::test]
async fn bad_requests_are_refused(#[case] spec: Value, #[case] code: u16) {
    let house = house().await;
    let refused = house.access.create_token("team", "bot", json!({ "spec": spec }), now()).unwrap_err();
    assert_eq!(refused.code, code, "{refused}");
}

#[tokio::test]
async fn a_token_is_not_bound_to_a_pod_of_another_account() {
    let house = house().await;
    house.put("/pods", &pod("pod-1", "someone-else")).await;
    let refused = house.access.create_token("team", "bot", json!({ "spec": bound_to_pod() }), now()).unwrap_err();
    assert_eq!(refused.code, 400);
}
