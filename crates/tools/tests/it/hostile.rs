//! Servers that are slow, endless, huge, or not what they say.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Redirect;
use axum::routing::{get, post};
use orrery_tools::mcp::Source;
use orrery_tools::{Caller, Client, Found, Problem, openapi};
use serde_json::{Value, json};

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
        let source = openapi::Source { url: format!("http://{address}{path}"), ..openapi::Source::default() };
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
    let metadata = openapi::Source { url: "http://169.254.169.254/openapi.json".into(), ..openapi::Source::default() };
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
    let source = openapi::Source { url: format!("http://{address}/"), ..openapi::Source::default() };
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

/// An MCP server that says `welcome` and then answers every question as `answer` does.
pub fn odd_server(answer: impl Fn(u64, &str) -> Value + Clone + Send + Sync + 'static) -> Router {
    Router::new().route(
        "/mcp",
        post(move |body: String| {
            let answer = answer.clone();
            async move {
                let message: Value = serde_json::from_str(&body).unwrap();
                let id = message["id"].as_u64().unwrap_or_default();
                let result = match message["method"].as_str() {
                    Some("initialize") => json!({ "protocolVersion": "2025-06-18", "capabilities": {} }),
                    Some("tools/list") => answer(id, message["params"]["cursor"].as_str().unwrap_or_default()),
                    _ => Value::Null,
                };
                (
                    [("content-type", "application/json")],
                    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string(),
                )
            }
        }),
    )
}

async fn mcp(router: Router, patience: Duration) -> Result<Vec<Found>, Problem> {
    let address = serve(router).await;
    let source = Source::Http { url: format!("http://{address}/mcp"), caller: Caller::default() };
    Client::new().unwrap().mcp_tools(&source, patience).await
}

#[tokio::test]
async fn mcp_servers_that_are_none() {
    let long = Duration::from_secs(20);
    let reason = async |router: Router, patience| mcp(router, patience).await.unwrap_err().reason;
    let slow = Router::new().route("/mcp", post(|| async { std::future::pending::<()>().await }));
    assert_eq!(reason(slow, Duration::from_millis(50)).await, "Timeout");
    let events = || async { ([("content-type", "text/event-stream")], endless()) };
    assert_eq!(reason(Router::new().route("/mcp", post(events)), long).await, "TooLarge");
    let elsewhere = || async { Redirect::temporary("http://169.254.169.254/latest") };
    assert_eq!(reason(Router::new().route("/mcp", post(elsewhere)), long).await, "Refused");
    assert_eq!(reason(odd_server(|_, _| json!({ "tools": 7 })), long).await, "InvalidAnswer");
    assert_eq!(reason(odd_server(|_, _| json!({ "tools": [] })), long).await, "NoTools");
    let pages = odd_server(|id, _| json!({ "tools": [], "nextCursor": id.to_string() }));
    assert_eq!(reason(pages, long).await, "InvalidAnswer");
    let many = odd_server(|_, _| json!({ "tools": vec![json!({ "name": "x", "inputSchema": {} }); 3000] }));
    assert_eq!(reason(many, long).await, "TooManyTools");
    let abroad = || async {
        ([("content-type", "text/event-stream")], "event: endpoint\ndata: http://169.254.169.254/latest\n\n")
    };
    let address = serve(Router::new().route("/sse", get(abroad))).await;
    let source = Source::Sse { url: format!("http://{address}/sse"), caller: Caller::default() };
    assert_eq!(Client::new().unwrap().mcp_tools(&source, long).await.unwrap_err().reason, "InvalidAnswer");
}

#[tokio::test]
async fn one_odd_tool_does_not_spoil_the_others() {
    let tools = json!([
        { "name": "good", "inputSchema": { "type": "object" } },
        { "name": "self", "inputSchema": { "type": "object", "properties": { "next": { "$ref": "#" } } } },
        { "name": "wrong", "inputSchema": { "type": 7 } },
        { "name": "none" },
        { "name": "huge", "inputSchema": { "type": "object", "description": "x".repeat(200_000) } },
        { "inputSchema": { "type": "object" } },
        7,
    ]);
    let found = mcp(odd_server(move |_, _| json!({ "tools": tools })), Duration::from_secs(20)).await.unwrap();
    let reasons: Vec<_> = found.iter().map(|tool| tool.problem.as_ref().map(|p| p.reason)).collect();
    assert_eq!(
        reasons,
        [
            None,
            None,
            Some("InvalidSchema"),
            Some("InvalidSchema"),
            Some("SchemaTooLarge"),
            Some("InvalidAnswer"),
            Some("InvalidAnswer")
        ]
    );
}
