//! Servers that are slow, endless, huge, or not what they say.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Redirect;
use axum::routing::get;
use orrery_tools::Client;
use orrery_tools::openapi::Source;
use serde_json::json;

pub async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

pub fn endless() -> Body {
    Body::from_stream(futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 65536])))
}

/// Aliases that would be gigabytes if they were written out.
fn bomb() -> String {
    let mut text = String::from("openapi: 3.1.0\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        let _ = writeln!(text, "a{level}: &a{level} [{inner}]");
    }
    text + "paths: {}\n"
}

#[tokio::test]
async fn documents_that_are_none() {
    let deep = || format!("{{\"openapi\":\"3.1.0\",\"paths\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let router = Router::new()
        .route("/slow", get(|| async { std::future::pending::<()>().await }))
        .route("/endless", get(|| async { endless() }))
        .route("/elsewhere", get(|| async { Redirect::temporary("http://169.254.169.254/latest") }))
        .route("/page", get(|| async { "<html>hello</html>" }))
        .route("/types", get(|| async { json!({ "openapi": "3.1.0", "paths": [1, 2] }).to_string() }))
        .route("/old", get(|| async { json!({ "swagger": "2.0", "paths": {} }).to_string() }))
        .route("/deep", get(move || async move { deep() }))
        .route("/bomb", get(|| async { bomb() }))
        .route("/bytes", get(|| async { vec![0xff_u8, 0xfe, 0x00] }))
        .route("/empty", get(|| async { json!({ "openapi": "3.0.0" }).to_string() }));
    let address = serve(router).await;
    let client = Client::new().unwrap();
    let reason = async |path: &str, patience: Duration| {
        let source = Source { url: format!("http://{address}{path}"), ..Source::default() };
        client.operations(&source, patience).await.map(|found| found.len()).unwrap_err().reason
    };
    let long = Duration::from_secs(20);
    assert_eq!(reason("/slow", Duration::from_millis(50)).await, "Timeout");
    assert_eq!(reason("/endless", long).await, "TooLarge");
    assert_eq!(reason("/elsewhere", long).await, "Refused");
    assert_eq!(reason("/types", long).await, "NoTools");
    assert_eq!(reason("/empty", long).await, "NoTools");
    for path in ["/page", "/old", "/deep", "/bomb", "/bytes"] {
        assert_eq!(reason(path, long).await, "InvalidAnswer", "{path}");
    }
    let metadata = Source { url: "http://169.254.169.254/openapi.json".into(), ..Source::default() };
    let refused = client.operations(&metadata, long).await.unwrap_err();
    assert!(refused.message.contains("link-local"), "{refused:?}");
}

#[tokio::test]
async fn one_odd_operation_does_not_spoil_the_others() {
    let document = json!({ "openapi": "3.1.0", "paths": {
        "/a": { "get": { "operationId": "good" } },
        "/b": { "get": { "operationId": "wrong", "parameters": [{ "name": "x", "in": "query", "schema": { "type": "nonsense" } }] } },
        "/c": { "get": { "operationId": "away", "parameters": [{ "name": "x", "in": "query", "schema": { "$ref": "http://127.0.0.1:1/x.json" } }] } },
        "/d": { "get": { "operationId": "circle", "parameters": [{ "$ref": "#/components/parameters/P" }] } },
        "/e": { "get": { "operationId": "self", "parameters": [{ "name": "x", "in": "query", "schema": { "$ref": "#/components/schemas/S" } }] } },
        "/f": { "get": 7 } },
        "components": { "parameters": { "P": { "$ref": "#/components/parameters/P" } },
            "schemas": { "S": { "anyOf": [{ "$ref": "#/components/schemas/S" }, { "type": "string" }] } } } });
    let text = document.to_string();
    let address = serve(Router::new().route("/", get(move || async move { text }))).await;
    let source = Source { url: format!("http://{address}/"), ..Source::default() };
    let found = Client::new().unwrap().operations(&source, Duration::from_secs(20)).await.unwrap();
    let reasons: Vec<_> =
        found.iter().map(|tool| (tool.name.as_str(), tool.problem.as_ref().map(|p| p.reason))).collect();
    assert_eq!(
        reasons,
        [
            ("good", None),
            ("wrong", Some("InvalidSchema")),
            ("away", Some("InvalidSchema")),
            ("circle", Some("Unsupported")),
            ("self", None)
        ]
    );
}
