//! Tools of servers that nobody here wrote, found and called on a real plane: each server is a Pod behind a Service, or a
//! program that only Pods run.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Name, State};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::io::ReaderStream;
use tokio_util::task::AbortOnDropHandle;

use crate::omnia::{World, content_with, object, pack};
use crate::plane::Plane;

/// The servers in archives on loopback: Pods have no files of this machine but those of its packages, and so fetch theirs.
struct Depot {
    url: String,
    _folder: tempfile::TempDir,
    _serving: AbortOnDropHandle<()>,
}

impl Depot {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = installed();
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tests/servers");
        archive(&root, &["node_modules"], &folder.path().join("node"));
        let packages = python_packages(&root);
        archive(&packages, &["."], &folder.path().join("python"));
        archive(&scripts, &["."], &folder.path().join("scripts"));
        let give = async |Name(name): Name<String>, State(folder): State<PathBuf>| {
            let file = tokio::fs::File::open(folder.join(name)).await.unwrap();
            Body::from_stream(ReaderStream::new(file))
        };
        let routes = Router::new().route("/{name}", axum::routing::get(give)).with_state(folder.path().to_owned());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://host.orrery.internal:{}", listener.local_addr().unwrap().port());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, _folder: folder, _serving: AbortOnDropHandle::new(serving) }
    }

    /// A command that fetches archives and becomes a program.
    fn command(&self, archives: &[&str], program: &str) -> [String; 3] {
        let fetch = |name: &&str| format!("curl -sSf {}/{name} | tar -C /tmp -x && ", self.url);
        let fetch: String = archives.iter().map(fetch).collect();
        ["sh".into(), "-c".into(), format!("{fetch}exec {program}")]
    }

    fn python(&self, script: &str) -> [String; 3] {
        self.command(&["python", "scripts"], &format!("env PYTHONPATH=/tmp python3 /tmp/{script}"))
    }

    fn everything(&self, mode: &str) -> [String; 3] {
        let program = format!("node /tmp/node_modules/@modelcontextprotocol/server-everything/dist/index.js {mode}");
        self.command(&["node"], &program)
    }
}

fn installed() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tool-servers");
    let output = Command::new(script).output().expect("scripts/tool-servers runs");
    assert!(output.status.success(), "servers cannot be had: {}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn python_packages(root: &Path) -> PathBuf {
    let versions = std::fs::read_dir(root.join("lib")).unwrap();
    let mut folders = versions.map(|entry| entry.unwrap().path().join("site-packages"));
    folders.find(|folder| folder.is_dir()).expect("packages of Python")
}

fn archive(folder: &Path, names: &[&str], file: &Path) {
    let made = Command::new("tar").arg("-C").arg(folder).arg("-cf").arg(file).args(names).status().unwrap();
    assert!(made.success(), "{} cannot be packed", folder.display());
}

/// A Pod behind a Service of the same name.
fn serve(world: &World, name: &str, command: &[String], variable: (&str, &str), port: u16) {
    let labels = json!({ "app": name });
    let container = json!({ "name": "main", "image": "host", "command": command,
        "env": [{ "name": variable.0, "value": variable.1 }],
        "readinessProbe": { "tcpSocket": { "port": port }, "periodSeconds": 1, "failureThreshold": 60 } });
    world.apply(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
        "spec": { "containers": [container], "terminationGracePeriodSeconds": 1 } }));
    world.apply(
        &json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "labels": { "tools": "yes" } },
        "spec": { "selector": labels, "ports": [{ "name": "main", "port": 80, "targetPort": port }] } }),
    );
}

fn tools(world: &World) -> Vec<Value> {
    let registry = world.kubectl(&["get", "toolregistry", "desk", "-o", "json"]).unwrap();
    let registry: Value = serde_json::from_str(&registry).unwrap();
    registry["status"]["discoveredTools"].as_array().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_of_real_servers_are_found_and_called() {
    let depot = Depot::open().await;
    let world = World(Plane::start());
    serve(&world, "shop", &depot.python("shop.py"), ("LISTEN", "0.0.0.0:8000"), 8000);
    serve(&world, "greeter", &depot.python("greeter.py"), ("LISTEN", "0.0.0.0:9000"), 9000);
    serve(&world, "everything", &depot.everything("streamableHttp"), ("PORT", "3001"), 3001);
    let handlers = json!([
        { "name": "shop", "type": "openapi", "openAPIConfig": { "specURL": "http://shop.default.svc/openapi.json" } },
        { "name": "greeter", "type": "grpc", "grpcConfig": { "endpoint": "greeter.default.svc.cluster.local:80" } },
        { "name": "everything", "type": "mcp", "mcpConfig": { "transport": "streamable-http", "endpoint": "http://everything.default.svc.cluster.local/mcp" } },
    ]);
    world.apply(&object("ToolRegistry", "desk", &json!({ "handlers": handlers })));
    world.wait("toolregistry/desk", "jsonpath={.status.discoveredTools[?(@.name==\"get_sum\")].status}=Available");
    world.wait(
        "toolregistry/desk",
        "jsonpath={.status.discoveredTools[?(@.name==\"demo_Greeter_SayHello\")].status}=Available",
    );
    world.wait(
        "toolregistry/desk",
        "jsonpath={.status.discoveredTools[?(@.name==\"read_pet_pets__pet_id__get\")].status}=Available",
    );

    let names = ["read_pet_pets__pet_id__get", "demo_Greeter_SayHello", "get_sum"];
    world.apply(&content_with("1.0.0", "You help.", &names));
    world.apply(&pack("1.0.0"));
    let helper = json!({ "promptPackRef": { "name": "support" }, "facade": {}, "provider": { "type": "mock" }, "toolRegistryRef": { "name": "desk" } });
    world.apply(&object("AgentRuntime", "helper", &helper));
    world.wait("agentruntime/helper", "condition=Ready");
    for (tool, arguments, answer) in [
        (names[0], json!({ "pet_id": 7 }), "\"id\":7"),
        (names[1], json!({ "person": { "name": "Ada" } }), "hello Ada"),
        (names[2], json!({ "a": 2, "b": 40 }), "42"),
    ] {
        let said =
            world.ask_until("helper", &format!("call {tool} {arguments}"), |said| said["tools"][0]["ok"] == true);
        assert!(said["content"].as_str().unwrap().contains(answer), "{tool}: {said}");
    }

    // A policy holds for them as for any other.
    world.apply(&object("AgentPolicy", "quiet", &json!({ "toolBlocklist": ["get_sum"] })));
    world.wait("agentpolicy/quiet", "condition=Enforced");
    world.ask_until("helper", "call get_sum {\"a\":2,\"b\":40}", |said| {
        said["tools"].as_array().is_none_or(|tools| tools.iter().all(|tool| tool["ok"] == false))
    });

    // A server that goes takes its tools with it, and no others.
    world.kubectl(&["delete", "pod", "shop", "--wait=false"]).unwrap();
    world.wait("toolregistry/desk", "jsonpath={.status.phase}=Degraded");
    world.wait(
        "toolregistry/desk",
        "jsonpath={.status.discoveredTools[?(@.name==\"read_pet_pets__pet_id__get\")].reason}=NoReadyEndpoints",
    );
    assert!(tools(&world).iter().any(|tool| tool["name"] == "get_sum" && tool["status"] == "Available"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_asked_in_a_pod_of_its_own_and_called_in_the_agents() {
    let depot = Depot::open().await;
    let world = World(Plane::start());
    world.apply(&json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "modest" } }));
    let [command, arguments @ ..] = depot.everything("stdio");
    let stdio = json!({ "transport": "stdio", "command": command, "args": arguments });
    let handlers = json!([{ "name": "everything", "type": "mcp", "mcpConfig": stdio }]);
    world.apply(&object("ToolRegistry", "desk", &json!({ "serviceAccountName": "modest", "handlers": handlers })));
    world.wait("toolregistry/desk", "jsonpath={.status.phase}=Ready");
    let pods = [
        "get",
        "pods",
        "-l",
        "omnia.altairalabs.ai/component=tool-probe",
        "-o",
        "jsonpath={.items[*].spec.serviceAccountName} {.items[*].status.phase}",
    ];
    assert_eq!(world.kubectl(&pods), Ok("modest Succeeded".into()));

    world.apply(&content_with("1.0.0", "You help.", &["echo"]));
    world.apply(&pack("1.0.0"));
    let helper = json!({ "promptPackRef": { "name": "support" }, "facade": {}, "provider": { "type": "mock" }, "toolRegistryRef": { "name": "desk" } });
    world.apply(&object("AgentRuntime", "helper", &helper));
    world.wait("agentruntime/helper", "condition=Ready");
    let said =
        world.ask_until("helper", "call echo {\"message\":\"knock knock\"}", |said| said["tools"][0]["ok"] == true);
    assert!(said["content"].as_str().unwrap().contains("Echo: knock knock"), "{said}");
}
