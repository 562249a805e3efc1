//! Logs, exec and port-forward with kube-rs over a real socket, and a node that only echoes.

use std::sync::Arc;

use apiserver::pods::{Connection, ExecRequest, ExecSession, Exit, LogOptions, LogStream, Output, PodAccess};
use apiserver::user::User;
use async_trait::async_trait;
use axum::extract::Request;
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, LogParams, PostParams};
use machinery::status::Status;
use serde_json::{Value, json};
use testkit::Plane;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Writes options as log lines, echoes input to both outputs, exits with the code it is told.
struct Echo;

#[async_trait]
impl PodAccess for Echo {
    async fn logs(&self, pod: &Value, options: LogOptions) -> Result<LogStream, Status> {
        let line = format!("{} {} {:?}\n", pod["metadata"]["name"], options.container, options.tail_lines);
        Ok(futures::stream::iter([Ok(Bytes::from(line)), Ok(Bytes::from("second\n"))]).boxed())
    }

    async fn exec(&self, _pod: &Value, request: ExecRequest) -> Result<ExecSession, Status> {
        if request.command == ["missing"] {
            return Err(Status::bad_request("no such program"));
        }
        let code = request.command.last().and_then(|word| word.parse().ok()).unwrap_or(0);
        let (stdin, mut input) = mpsc::channel::<Bytes>(8);
        let (output, outputs) = mpsc::channel(8);
        let (resize, _) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(bytes) = input.recv().await {
                output.send(Output::Stdout(bytes.clone())).await.unwrap();
                output.send(Output::Stderr(bytes)).await.unwrap();
                if !request.tty {
                    break;
                }
            }
        });
        Ok(ExecSession { stdin, output: outputs, resize, exit: async move { Exit::Code(code) }.boxed() })
    }

    async fn port_forward(&self, _pod: &Value, port: u16) -> Result<Connection, Status> {
        if port == 1 {
            return Err(Status::bad_request("connection refused"));
        }
        let (ours, mut theirs) = tokio::io::duplex(1024);
        if port == TALKER {
            tokio::spawn(async move { theirs.write_all(&SPEECH).await });
            return Ok(Box::pin(ours));
        }
        tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok(count @ 1..) = theirs.read(&mut buffer).await {
                theirs.write_all(&buffer[..count].to_ascii_uppercase()).await.unwrap();
            }
        });
        Ok(Box::pin(ours))
    }
}

/// A plane on a socket, with one Pod, and a client of it.
async fn plane() -> (Plane, Api<Pod>, String) {
    let plane = Plane::with_pods(Arc::new(Echo)).await;
    let user = Arc::new(User::master("admin"));
    let routes = plane.server().routes().layer(axum::middleware::from_fn(
        move |mut request: Request, next: axum::middleware::Next| {
            request.extensions_mut().insert(user.clone());
            next.run(request)
        },
    ));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, routes).into_future());
    let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = json!({ "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "main", "image": "i" }, { "name": "side", "image": "i" }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    (plane, pods, url)
}

#[tokio::test]
async fn logs_are_of_the_container_asked_for() {
    let (_plane, pods, _) = plane().await;
    let params = LogParams { container: Some("side".into()), tail_lines: Some(7), ..LogParams::default() };
    assert_eq!(pods.logs("p", &params).await.unwrap(), "\"p\" side Some(7)\nsecond\n");
    let unnamed = pods.logs("p", &LogParams::default()).await.unwrap_err().to_string();
    assert!(unnamed.contains("a container name must be specified for pod p, choose one of: [main side]"), "{unnamed}");
    let wrong = LogParams { container: Some("other".into()), ..LogParams::default() };
    let wrong = pods.logs("p", &wrong).await.unwrap_err().to_string();
    assert!(wrong.contains("container other is not valid for pod p"), "{wrong}");
}

#[tokio::test]
async fn exec_carries_input_output_and_exit_code() {
    let (_plane, pods, _) = plane().await;
    let params = AttachParams::default().container("main").stdin(true);
    let mut session = pods.exec("p", ["sh", "3"], &params).await.unwrap();
    session.stdin().unwrap().write_all(b"hello").await.unwrap();
    let mut output = String::new();
    let mut errors = String::new();
    let status = session.take_status().unwrap();
    session.stdout().unwrap().read_to_string(&mut output).await.unwrap();
    session.stderr().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!((output.as_str(), errors.as_str()), ("hello", "hello"));
    let status = status.await.unwrap();
    assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
    assert_eq!(status.details.unwrap().causes.unwrap()[0].message.as_deref(), Some("3"));
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_the_socket_opens() {
    let (plane, pods, url) = plane().await;
    let error = pods.exec("p", ["missing"], &AttachParams::default().container("main")).await;
    assert!(error.is_err());
    let path = "/api/v1/namespaces/default/pods/p/exec?container=main&command=sh&stdout=true";
    let plain = plane.request("POST", path, &[], "").await;
    assert_eq!(plain.code, 400);
    assert!(plain.json()["message"].as_str().unwrap().contains("WebSocket"), "{}", plain.text());
    let spdy = plane.request("POST", path, &[("upgrade", "SPDY/3.1"), ("connection", "upgrade")], "").await;
    assert!(spdy.json()["message"].as_str().unwrap().contains("SPDY is not served"), "{}", spdy.text());
    let attach =
        reqwest::Client::new().get(format!("{url}/api/v1/namespaces/default/pods/p/attach?container=main&stdout=true"));
    let attach = attach.headers(handshake()).send().await.unwrap();
    assert_eq!(attach.status(), 501);
}

fn handshake() -> reqwest::header::HeaderMap {
    let pairs = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", "v5.channel.k8s.io"),
    ];
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

#[tokio::test]
async fn ports_are_forwarded() {
    let (_plane, pods, _) = plane().await;
    let mut forwarder = pods.portforward("p", &[8080, 1]).await.unwrap();
    let mut stream = forwarder.take_stream(8080).unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut buffer = [0; 5];
    stream.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"HELLO");
    let refused = forwarder.take_error(1).unwrap().await;
    assert_eq!(refused.as_deref(), Some("connection refused"));
}

/// A Pod that says much behind this port, and goes at once.
const TALKER: u16 = 2;
static SPEECH: [u8; 50_000] = [b'!'; 50_000];

#[tokio::test]
async fn the_last_words_of_a_pod_are_forwarded() {
    let (_plane, pods, _) = plane().await;
    for _ in 0..20 {
        let mut forwarder = pods.portforward("p", &[TALKER]).await.unwrap();
        let mut heard = Vec::new();
        forwarder.take_stream(TALKER).unwrap().read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard.len(), SPEECH.len());
    }
}
