//! Servers that tell nobody what they have but those whom they know.

use std::collections::BTreeMap;
use std::time::Duration;

use api::omnia::AuthType;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use orrery_tools::mcp::Source;
use orrery_tools::{Caller, Client, Credentials, openapi};
use rstest::rstest;
use serde_json::json;

use crate::hostile::{odd_server, serve};

const PATIENCE: Duration = Duration::from_secs(20);

fn is_known(headers: &HeaderMap) -> bool {
    let says = |name: &str, words: &str| headers.get(name).is_some_and(|value| value == words);
    says("authorization", "Basic YWRhOmh1c2g=") && says("x-team", "a")
}

async fn door(request: Request, next: Next) -> Response {
    if is_known(request.headers()) {
        next.run(request).await
    } else {
        (StatusCode::UNAUTHORIZED, "who are you?").into_response()
    }
}

fn caller(secret: Option<&str>) -> Caller {
    let credentials = secret.map(|secret| Credentials::new(AuthType::Basic, secret).unwrap()).unwrap_or_default();
    Caller { headers: BTreeMap::from([("x-team".to_owned(), "a".to_owned())]), credentials }
}

#[rstest]
#[case::known(Some("ada:hush"), true)]
#[case::stranger(Some("eve:guess"), false)]
#[case::nobody(None, false)]
#[tokio::test]
async fn a_server_behind_a_door_is_asked_with_credentials(#[case] secret: Option<&str>, #[case] known: bool) {
    let tools = json!([{ "name": "t", "inputSchema": { "type": "object" } }]);
    let document = json!({ "openapi": "3.1.0", "paths": { "/t": { "get": { "operationId": "t" } } } }).to_string();
    let rooms = odd_server(move |_, _| json!({ "tools": tools })).route("/openapi.json", get(async || document));
    let address = serve(rooms.layer(from_fn(door))).await;
    let client = Client::new().unwrap();
    let source = openapi::Source {
        url: format!("http://{address}/openapi.json"),
        caller: caller(secret),
        ..openapi::Source::default()
    };
    let mcp = Source::Http { url: format!("http://{address}/mcp"), caller: caller(secret) };
    for found in [client.operations(&source, PATIENCE).await, client.mcp_tools(&mcp, PATIENCE).await] {
        match found {
            Ok(found) => assert!(known && found.len() == 1, "{found:?}"),
            Err(problem) => assert!(!known && problem.reason == "Refused", "{problem:?}"),
        }
    }
    let sse = Source::Sse { url: format!("http://{address}/openapi.json"), caller: caller(secret) };
    let problem = client.mcp_tools(&sse, PATIENCE).await.unwrap_err();
    assert_eq!(problem.reason, if known { "InvalidAnswer" } else { "Refused" }, "{problem:?}");
}
