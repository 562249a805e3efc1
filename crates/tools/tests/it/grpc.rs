//! A gRPC server with reflection.

use std::time::Duration;

use api::omnia::HandlerType;
use api::omnia::tools::ToolEntry;
use orrery_tools::{Client, Error, Found};
use serde_json::{Value, json};

use crate::servers;

fn entry(found: &Found) -> ToolEntry {
    let tool = json!({ "name": found.name, "description": found.description, "inputSchema": found.input_schema });
    let entry = json!({ "name": "greeter", "type": HandlerType::Grpc, "registry": "desk", "endpoint": found.endpoint, "tool": tool,
        "grpcConfig": {}, "grpcMethod": found.remote_name, "timeout": "20s" });
    serde_json::from_value(entry).unwrap()
}

#[tokio::test]
async fn a_server_with_reflection_is_discovered_and_called() {
    let server = servers::python("greeter.py");
    let endpoint = format!("127.0.0.1:{}", server.port);
    let client = Client::new().unwrap();
    let found = client.grpc_methods(&endpoint, false, Duration::from_secs(20)).await.unwrap();
    let reasons: Vec<_> =
        found.iter().map(|tool| (tool.name.as_str(), tool.problem.as_ref().map(|p| p.reason))).collect();
    assert_eq!(reasons, [("demo_Greeter_SayHello", None), ("demo_Greeter_Chat", Some("Unsupported"))]);
    let schema = &found[0].input_schema;
    assert_eq!(schema["properties"]["mood"], json!({ "enum": ["CALM", "LOUD"] }));
    assert_eq!(schema["$defs"]["demo.Person"]["properties"]["bestFriend"], json!({ "$ref": "#/$defs/demo.Person" }));

    let hello = entry(&found[0]);
    let call = async |arguments: Value| client.call(&hello, &arguments, &|_| None).await;
    let friends = json!({ "person": { "name": "Ada", "bestFriend": { "name": "Grace" } }, "mood": "LOUD", "times": "2", "since": "2026-01-01T00:00:00Z" });
    let answer: Value = serde_json::from_str(&call(friends).await.unwrap()).unwrap();
    assert_eq!(answer, json!({ "words": ["HELLO Ada", "HELLO Ada", "and Grace"] }));
    let refused = call(json!({})).await;
    assert_eq!(refused, Err(Error::Status { status: 3, message: "who are you?".into() }));
    assert!(matches!(call(json!({ "mood": "ANGRY" })).await, Err(Error::Arguments(_))));
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_said_to() {
    let shop = servers::python("shop.py");
    let client = Client::new().unwrap();
    let problem = client.grpc_methods(&format!("127.0.0.1:{}", shop.port), false, Duration::from_secs(20)).await;
    assert_eq!(problem.unwrap_err().reason, "Unreachable", "it speaks HTTP/1.1");
}
