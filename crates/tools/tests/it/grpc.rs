//! A gRPC server with reflection.

use std::fs;
use std::path::Path;
use std::time::Duration;

use api::omnia::HandlerType;
use api::omnia::tools::ToolEntry;
use orrery_tools::{Client, Error, Found};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
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

/// A tool whose schema is written down, so that its server need not describe itself.
fn declared(tool: &str, endpoint: &str) -> ToolEntry {
    let schema = json!({ "type": "object", "required": ["number", "by"] });
    let tool = json!({ "name": tool, "description": "d", "inputSchema": schema });
    let entry = json!({ "name": "box", "type": HandlerType::Grpc, "registry": "desk", "endpoint": endpoint, "tool": tool,
        "grpcConfig": { "endpoint": endpoint }, "timeout": "20s" });
    serde_json::from_value(entry).unwrap()
}

#[tokio::test]
async fn a_server_of_the_contract_for_tools_is_called_by_it() {
    let server = servers::python("toolbox.py");
    let endpoint = format!("127.0.0.1:{}", server.port);
    let client = Client::new().unwrap();
    let call =
        async |tool: &str, arguments: Value| client.call(&declared(tool, &endpoint), &arguments, &|_| None).await;
    let answer = call("divide", json!({ "number": 84, "by": 2 })).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap(), json!({ "quotient": 42.0 }));
    let failed = call("divide", json!({ "number": 84, "by": 0 })).await;
    assert_eq!(failed, Err(Error::Failed("cannot divide by zero".into())));
    let unknown = call("multiply", json!({ "number": 84, "by": 2 })).await;
    assert_eq!(unknown, Err(Error::Status { status: 5, message: "there is no multiply".into() }));
    assert!(matches!(call("divide", json!({ "number": 84 })).await, Err(Error::Arguments(_))), "the schema holds");

    let silent = client.grpc_methods(&endpoint, false, Duration::from_secs(20)).await;
    let silent = silent.unwrap_err().message;
    assert!(silent.contains("no server reflection"), "without a schema nothing is known of it: {silent}");
    let greeter = servers::python("greeter.py");
    let other = declared("divide", &format!("127.0.0.1:{}", greeter.port));
    let refused = client.call(&other, &json!({ "number": 84, "by": 2 }), &|_| None).await;
    assert!(matches!(refused, Err(Error::Status { status: 12, .. })), "another contract: {refused:?}");
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_said_to() {
    let shop = servers::python("shop.py");
    let client = Client::new().unwrap();
    let problem = client.grpc_methods(&format!("127.0.0.1:{}", shop.port), false, Duration::from_secs(20)).await;
    assert_eq!(problem.unwrap_err().reason, "Unreachable", "it speaks HTTP/1.1");
}

/// An authority, and certificates of it for a server and a client.
fn certify(folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let key = KeyPair::generate().unwrap();
    write("ca.pem", params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        write(&format!("{name}.pem"), params.signed_by(&key, &issuer).unwrap().pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

#[tokio::test]
async fn certificates_are_read_from_the_files_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let server = servers::python_with("greeter.py", &[("TLS", folder.path())]);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let client = Client::new().unwrap();
    let call = async |config: Value| {
        let tool = json!({ "name": "hello", "description": "d", "inputSchema": { "type": "object" } });
        let entry = json!({ "name": "greeter", "type": "grpc", "registry": "desk", "tool": tool, "timeout": "20s",
            "endpoint": format!("127.0.0.1:{}", server.port), "grpcConfig": config, "grpcMethod": "demo.Greeter/SayHello" });
        let entry: ToolEntry = serde_json::from_value(entry).unwrap();
        client.call(&entry, &json!({ "person": { "name": "Ada" } }), &|_| None).await
    };
    let full = json!({ "tls": true, "tlsCAPath": file("ca.pem"), "tlsCertPath": file("client.pem"), "tlsKeyPath": file("client.key") });
    assert!(call(full.clone()).await.unwrap().contains("hello Ada"));
    let without = |field: &str| {
        let mut config = full.clone();
        config.as_object_mut().unwrap().remove(field);
        config
    };
    assert!(matches!(call(without("tlsCAPath")).await, Err(Error::Unreachable(_))), "nobody here knows the authority");
    assert!(matches!(call(without("tlsKeyPath")).await, Err(Error::Invalid(_))), "a certificate without its key");
    let stranger = json!({ "tls": true, "tlsCAPath": file("ca.pem") });
    assert!(matches!(call(stranger).await, Err(Error::Unreachable(_))), "the server wants to know who calls");
    let careless = json!({ "tls": true, "tlsInsecureSkipVerify": true });
    assert!(matches!(call(careless).await, Err(Error::Invalid(_))), "nothing is skipped");
}
