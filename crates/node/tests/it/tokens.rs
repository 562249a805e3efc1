//! Tokens of service accounts in running Pods.

use apiserver::user::User;
use axum::body::{Body, to_bytes};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::Plane;
use tower::{Service as _, ServiceExt as _};

use crate::plane::{World, phase};

/// A client to which every token seems to end two seconds from now.
fn hurried(plane: &Plane) -> kube::Client {
    let plane = plane.server().service_as::<kube::client::Body>(User::master("node"));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let mut plane = plane.clone();
        async move {
            let asks_for_token = request.uri().path().ends_with("/token");
            let answer = plane.ready().await?.call(request).await?;
            if !asks_for_token {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let mut token: Value = serde_json::from_slice(&to_bytes(body, usize::MAX).await?)?;
            let end = Timestamp::now() + SignedDuration::from_secs(2);
            token["status"]["expirationTimestamp"] = end.to_string().into();
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, Body::from(token.to_string())))
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_it_ends() {
    let world = World::with_client(hurried).await;
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "default" } })).unwrap();
    world.api().create(&PostParams::default(), &account).await.unwrap();
    let script = "first=$(cat /identity/token); for renewal in 1 2; do \
                    until [ \"$(cat /identity/token)\" != \"$first\" ]; do sleep 0.05; done; \
                    first=$(cat /identity/token); echo renewed; done; ls /identity";
    let token = json!({ "serviceAccountToken": { "path": "token", "expirationSeconds": 600 } });
    world
        .create(
            "robot",
            json!({
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "command": ["sh", "-c", script],
                                 "volumeMounts": [{ "name": "identity", "mountPath": "/identity" }] }],
                "volumes": [{ "name": "identity", "projected": { "sources": [token] } }],
            }),
        )
        .await;
    let pod = world.over("robot").await;
    assert_eq!(phase(&pod), "Succeeded");
    assert_eq!(world.logs("robot", "main").await, "renewed\nrenewed\ntoken\n");
}
