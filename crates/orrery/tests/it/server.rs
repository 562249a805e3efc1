//! `orrery server`: in front of a plane of another process, with no more rights than the chart gives it. The plane
//! says who a caller is (`TokenReview`) and what they may do (impersonation).

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::plane::Plane;

/// A running `orrery server`. Killed when dropped.
struct Server {
    process: Child,
    address: String,
    audit: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts it with the identity of a service account and waits until it says where it is.
    fn start(plane: &Plane, account: &str) -> Self {
        let admin: Value = serde_json::from_str(&kubectl(plane, &["config", "view", "--raw", "-o", "json"])).unwrap();
        let token = kubectl(plane, &["create", "token", account]);
        let kubeconfig = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": admin["clusters"],
            "users": [{ "name": "u", "user": { "token": token.trim() } }],
            "contexts": [{ "name": "c", "context": { "cluster": admin["clusters"][0]["name"], "user": "u", "namespace": "default" } }] });
        let file = plane.folder().join("server.json");
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        let (log, audit) = (plane.folder().join("server.log"), plane.folder().join("server-audit.log"));
        let process = Command::new(env!("CARGO_BIN_EXE_orrery"))
            .args(["server", "--server-port", "0", "--kubeconfig"])
            .arg(&file)
            .arg("--audit-log")
            .arg(&audit)
            .stdin(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .env_remove("KUBECONFIG")
            .env("ORRERY_DATA_DIR", plane.folder().join("not-there"))
            .spawn()
            .unwrap();
        let mut server = Self { process, address: String::new(), audit };
        let mut said = BufReader::new(File::open(&log).unwrap());
        let mut line = String::new();
        loop {
            if let Some((_, rest)) = line.split_once(" at http://").filter(|_| line.ends_with('\n')) {
                server.address = format!("http://{}", rest.split(' ').next().unwrap());
                return server;
            }
            if line.ends_with('\n') {
                line.clear();
            }
            if said.read_line(&mut line).unwrap() == 0 {
                assert!(server.process.try_wait().unwrap().is_none(), "{}", std::fs::read_to_string(&log).unwrap());
                std::thread::yield_now();
            }
        }
    }

    async fn ask(&self, token: Option<&str>, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = Client::new().request(method, format!("{}{path}", self.address));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    fn stop(mut self) -> ExitStatus {
        kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM).unwrap();
        self.process.wait().unwrap()
    }
}

fn kubectl(plane: &Plane, words: &[&str]) -> String {
    let output = Command::new(crate::kubectl::find_kubectl())
        .args(words)
        .env("KUBECONFIG", plane.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "kubectl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn apply(plane: &Plane, objects: &[Value]) {
    let file = plane.folder().join("objects.json");
    std::fs::write(&file, objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")).unwrap();
    kubectl(plane, &["apply", "-f", file.to_str().unwrap()]);
}

/// The chart's rights, with the two names that Helm would fill in.
fn rights() -> Vec<Value> {
    let text = include_str!("../../../../charts/orrery/templates/server-rbac.yaml");
    let text = text.replace("{{ .Release.Name }}", "orrery").replace("{{ .Release.Namespace }}", "default");
    text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

/// Two namespaces with a Task each, and somebody who may do anything in one of them.
fn people() -> Vec<Value> {
    let kind = |api_version: &str, kind: &str, name: &str, namespace: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    let group = "rbac.authorization.k8s.io";
    let mut objects = Vec::new();
    for namespace in ["red", "blue"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        let mut task = kind("kubeopencode.io/v1alpha1", "Task", &format!("of-{namespace}"), namespace);
        task["spec"] = json!({"description": "a", "templateRef": {"name": "shell"}});
        objects.push(task);
    }
    objects.push(kind("v1", "ServiceAccount", "bob", "blue"));
    let mut role = kind(&format!("{group}/v1"), "Role", "bob", "blue");
    role["rules"] = json!([{"apiGroups": ["kubeopencode.io"], "resources": ["*"], "verbs": ["*"]}]);
    objects.push(role);
    let mut binding = kind(&format!("{group}/v1"), "RoleBinding", "bob", "blue");
    binding["roleRef"] = json!({"apiGroup": group, "kind": "Role", "name": "bob"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "bob", "namespace": "blue"}]);
    objects.push(binding);
    objects
}

#[tokio::test]
async fn the_plane_says_who_a_caller_is_and_what_they_may_do() {
    // Another test of this process may have chosen it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start_in(&folder.path().join("data"), &["--without-controllers"]);
    apply(&plane, &rights());
    apply(&plane, &people());
    let server = Server::start(&plane, "orrery-server");
    let token = kubectl(&plane, &["create", "token", "bob", "-n", "blue"]);
    let bob = Some(token.trim());

    assert_eq!(server.ask(None, Method::GET, "/api/v1/tasks", None).await.0, 401);
    assert_eq!(server.ask(Some("not.a.token"), Method::GET, "/api/v1/tasks", None).await.0, 401);
    let (_, who) = server.ask(bob, Method::GET, "/api/v1/whoami", None).await;
    assert_eq!(who["name"], "system:serviceaccount:blue:bob");

    let (_, tasks) = server.ask(bob, Method::GET, "/api/v1/tasks", None).await;
    assert_eq!((&tasks["total"], &tasks["tasks"][0]["name"]), (&json!(1), &json!("of-blue")), "{tasks}");
    let (status, refusal) = server.ask(bob, Method::GET, "/api/v1/namespaces/red/tasks/of-red", None).await;
    assert_eq!((status.as_u16(), &refusal["error"]), (403, &json!("Forbidden")), "{refusal}");
    assert_eq!(server.ask(bob, Method::DELETE, "/api/v1/namespaces/red/tasks/of-red", None).await.0, 403);
    assert_eq!(server.ask(bob, Method::GET, "/metrics", None).await.0, 403);

    let task = json!({"name": "made", "description": "a", "templateRef": {"name": "shell"}});
    assert_eq!(server.ask(bob, Method::POST, "/api/v1/namespaces/blue/tasks", Some(task)).await.0, 201);
    kubectl(&plane, &["get", "task", "made", "-n", "blue"]);
    kubectl(&plane, &["get", "task", "of-red", "-n", "red"]);
    let audit = std::fs::read_to_string(&server.audit).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<(&str, u64)> =
        lines.iter().map(|line| (line["method"].as_str().unwrap(), line["status"].as_u64().unwrap())).collect();
    assert_eq!(seen, [("DELETE", 403), ("POST", 201)]);
    let from = |line: &Value| line["from"].as_str().unwrap().starts_with("127.0.0.1:");
    assert!(lines.iter().all(|line| line["user"] == "system:serviceaccount:blue:bob" && from(line)), "{audit}");

    // The account of the server itself counts Tasks and knows no more of them.
    let may = |verb: &str, what: &str| {
        let output = Command::new(crate::kubectl::find_kubectl())
            .args(["auth", "can-i", verb, what, "--as", "system:serviceaccount:default:orrery-server", "-n", "red"])
            .env("KUBECONFIG", plane.kubeconfig())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim() == "yes"
    };
    for (verb, what) in [("delete", "tasks"), ("get", "secrets"), ("get", "pods"), ("create", "tasks")] {
        assert!(!may(verb, what), "{verb} {what}");
    }

    // A stream sees what the caller may see, live, and ends with the server.
    let path = format!("{}/api/v1/stream?kinds=tasks", server.address);
    let mut stream = Client::new().get(path).bearer_auth(token.trim()).send().await.unwrap();
    let mut text = String::new();
    let mut read_until = async |wanted: &str| {
        while !text.contains(wanted) {
            let chunk = tokio::time::timeout(Duration::from_mins(1), stream.chunk()).await.expect("a minute is enough");
            text.push_str(&String::from_utf8_lossy(&chunk.unwrap().expect("the stream goes on")));
        }
    };
    read_until("of-blue").await;
    for (namespace, name) in [("red", "later-red"), ("blue", "later-blue")] {
        let task = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": name, "namespace": namespace},
            "spec": {"description": "a", "templateRef": {"name": "shell"}}});
        apply(&plane, &[task]);
    }
    read_until("later-blue").await;
    assert!(!text.contains("red"), "{text}");

    // A plane that is away is said to be away.
    assert_eq!(server.ask(None, Method::GET, "/ready", None).await.0, 200);
    drop(plane);
    assert_eq!(server.ask(None, Method::GET, "/ready", None).await.0, 503);
    let (status, refusal) = server.ask(bob, Method::GET, "/api/v1/tasks", None).await;
    assert_eq!((status.as_u16(), &refusal["error"]), (502, &json!("PlaneUnavailable")), "{refusal}");
    assert!(server.stop().success());
}
