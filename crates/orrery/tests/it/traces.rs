//! What a collector receives: real spans in real protobuf, from a real plane.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;

use crate::plane::Plane;

type Received = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// A collector that keeps what it is sent, and where it listens.
async fn collector() -> (Received, String) {
    let received = Received::default();
    let keep = async |State(received): State<Received>, body: Bytes| {
        received.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
    };
    let router = Router::new().route("/v1/traces", post(keep)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (received, address)
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_requests_and_reconciles() {
    let (received, endpoint) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start_in(&folder.path().join("data"), &["--otlp-endpoint", &endpoint]);
    let link = plane.log().split_whitespace().find(|word| word.contains("/login?token=")).unwrap().to_owned();
    // Another test of this process may have chosen it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let origin = link.split("/login").next().unwrap();
    // A caller that has begun a trace of its own finds our span in it.
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let asked = reqwest::Client::new()
        .get(format!("{origin}/api/v1/namespaces/default/tasks"))
        .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"));
    assert_eq!(asked.send().await.unwrap().status(), 401);
    // What waits to be sent is sent before it ends.
    assert!(tokio::task::spawn_blocking(|| plane.stop(Signal::SIGTERM)).await.unwrap().0.success());

    let received = received.lock().unwrap();
    let resources: Vec<_> = received.iter().flat_map(|request| &request.resource_spans).collect();
    let service = |name: &str| {
        resources.iter().all(|one| text(&one.resource.as_ref().unwrap().attributes, "service.name") == Some(name))
    };
    assert!(!resources.is_empty() && service("orrery"));
    let spans: Vec<_> =
        resources.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).collect();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let request = spans.iter().find(|span| span.name == "GET /api/v1/namespaces/{namespace}/tasks");
    let request = request.unwrap_or_else(|| panic!("{names:?}"));
    assert_eq!(text(&request.attributes, "http.request.method"), Some("GET"));
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    assert_eq!((hex(&request.trace_id), hex(&request.parent_span_id)), (trace.into(), "b7ad6b7169203331".into()));
    let status = request.attributes.iter().find(|attribute| attribute.key == "http.response.status_code").unwrap();
    assert_eq!(status.value.as_ref().unwrap().value, Some(Value::IntValue(401)));
    let reconcile = spans.iter().find(|span| span.name == "reconcile").unwrap_or_else(|| panic!("{names:?}"));
    assert!(text(&reconcile.attributes, "controller").is_some());
    assert!(reconcile.end_time_unix_nano >= reconcile.start_time_unix_nano);
}
