//! Agents and Tasks with the real OpenCode, which does real work for a scripted model.
//!
//! OpenCode comes from `scripts/opencode` (npm); a test that cannot have it fails and says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::model::{Conversation, Model, Script, Turn};
use tokio::sync::Notify;

use crate::plane::Plane;

/// The real agent's program.
fn opencode() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/opencode");
        let output = Command::new(script).output().expect("scripts/opencode runs");
        assert!(output.status.success(), "OpenCode cannot be had: {}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
    })
}

/// A plane whose Pods have the real agent.
pub struct World {
    plane: Option<Plane>,
    folder: tempfile::TempDir,
    flags: Vec<&'static str>,
}

impl World {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(flags: &[&'static str]) -> Self {
        let mut world = Self { plane: None, folder: tempfile::tempdir().unwrap(), flags: flags.to_vec() };
        world.up();
        world
    }

    fn up(&mut self) {
        let data = self.folder.path().join("data");
        let mut flags = vec!["--opencode", opencode().to_str().unwrap()];
        flags.extend(&self.flags);
        self.plane = Some(Plane::start_in(&data, &flags));
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// `kill -9`, and up again.
    pub fn restart(&mut self) {
        drop(self.plane.take());
        self.up();
    }

    fn run(&self, program: &Path, words: &[&str]) -> Output {
        self.command(program, words).output().unwrap()
    }

    /// A command that talks to this plane, not started yet.
    pub fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).env("KUBECONFIG", self.data().join("kubeconfig")).env("ORRERY_DATA_DIR", self.data());
        command
    }

    pub fn kubectl(&self, words: &[&str]) -> String {
        let output = self.run(&crate::kubectl::find_kubectl(), words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {words:?}: {said}\n{}", self.told());
        String::from_utf8(output.stdout).unwrap()
    }

    /// What kubectl says when it fails, as it must.
    pub fn refused(&self, words: &[&str]) -> String {
        let output = self.run(&crate::kubectl::find_kubectl(), words);
        assert!(!output.status.success(), "kubectl {words:?} should have failed");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    pub fn orrery(&self, words: &[&str]) -> Output {
        self.run(Path::new(env!("CARGO_BIN_EXE_orrery")), words)
    }

    pub fn apply(&self, objects: &[Value]) {
        let file = self.folder.path().join("objects.json");
        std::fs::write(&file, objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")).unwrap();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    }

    pub fn wait(&self, what: &str, condition: &str) {
        self.kubectl(&["wait", what, &format!("--for={condition}"), "--timeout=120s"]);
    }

    pub fn task(&self, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", "task", name, "-o", "json"])).unwrap()
    }

    /// What the server's own container sees at a path.
    pub fn on_server(&self, agent: &str, script: &str) -> String {
        let deployment = format!("deploy/{agent}-server");
        self.kubectl(&["exec", &deployment, "-c", "opencode-server", "--", "sh", "-c", script])
    }

    /// What the plane has said, once it has said this.
    pub fn said(&self, part: &str) -> String {
        loop {
            let log = self.plane.as_ref().unwrap().log();
            if log.contains(part) {
                return log;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the plane knows, for a test that fails.
    pub fn told(&self) -> String {
        let kubectl = crate::kubectl::find_kubectl();
        let about = |words: &[&str]| String::from_utf8_lossy(&self.run(&kubectl, words).stdout).into_owned();
        let logs = std::fs::read_to_string(self.data().join("stderr")).unwrap_or_default();
        let server = about(&["logs", "-l", "app.kubernetes.io/component=server", "--tail=40", "--all-containers"]);
        format!(
            "{}\n{}\n{server}\n{logs}",
            about(&["get", "agents,tasks,pods", "-o", "yaml"]),
            about(&["get", "events"])
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.plane.take());
        // Pods outlive their plane; a test's must not outlive the test.
        let data = self.data();
        let _ = Command::new(env!("CARGO_BIN_EXE_orrery")).arg("down").arg("--data-dir").arg(&data).output();
    }
}

pub fn agent(name: &str, config: &Value) -> Value {
    json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": { "name": name },
        "spec": { "serviceAccountName": "default", "workspaceDir": "/workspace", "config": config,
            "podSpec": quiet() } })
}

fn template(name: &str, config: &Value) -> Value {
    json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate", "metadata": { "name": name },
        "spec": { "serviceAccountName": "default", "workspaceDir": "/workspace", "config": config,
            "podSpec": quiet() } })
}

/// Nothing of this may reach for the network, which tests do not have.
fn quiet() -> Value {
    let names = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"];
    let env: Vec<Value> =
        names.iter().map(|name| json!({ "name": format!("OPENCODE_DISABLE_{name}"), "value": "1" })).collect();
    json!({ "extraEnv": env })
}

pub fn task(name: &str, host: (&str, &str), description: &str) -> Value {
    json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": { "name": name },
        "spec": { host.0: { "name": host.1 }, "description": description } })
}

/// Writes a file, shows it with a shell, and says that it is done: three turns, 100 tokens in and 10 out each.
fn writes_a_file(conversation: &Conversation) -> Turn {
    if !conversation.offers("write") {
        return Turn::say("a title").costing(0, 0);
    }
    let turn = match conversation.results().len() {
        0 => Turn::call("write", json!({ "filePath": "/workspace/answer.txt", "content": "forty\ntwo\n" })),
        1 => Turn::call("bash", json!({ "command": "cat answer.txt; pwd", "description": "look at it" })),
        _ => Turn::say("The answer is written."),
    };
    turn.costing(100, 10)
}

fn assert_summary(task: &Value) {
    let session = &task["status"]["session"];
    let summary = &session["summary"];
    let uid = task["metadata"]["uid"].as_str().unwrap();
    let name = task["metadata"]["name"].as_str().unwrap();
    assert_eq!(session["title"], format!("kubeopencode/default/{name}/{}", &uid[uid.len() - 8..]), "{task:#}");
    assert!(session["id"].as_str().is_some_and(|id| id.starts_with("ses_")), "{task:#}");
    assert_eq!(summary["tokenUsage"], json!({ "input": 300, "output": 30, "reasoning": 0, "cache": 0 }), "{task:#}");
    // 300 × 2 $ + 30 × 10 $ for a million.
    assert_eq!(summary["cost"], "0.000900", "{task:#}");
    assert_eq!((&summary["filesChanged"], &summary["additions"]), (&json!(1), &json!(2)), "{task:#}");
    assert_eq!(summary["messageCount"], 4, "{task:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_on_an_agent_edits_a_file_and_is_accounted_for() {
    let model = Model::start(writes_a_file).await;
    let world = World::start();
    world.apply(&[agent("coder", &model.config())]);
    world.wait("agent/coder", "condition=ServerReady");
    world.apply(&[task("first", ("agentRef", "coder"), "write \"the\" $answer")]);
    world.wait("task/first", "condition=Complete");
    assert_eq!(world.on_server("coder", "cat /workspace/answer.txt"), "forty\ntwo\n");
    let log = world.kubectl(&["logs", "first-pod", "-c", "agent"]);
    assert!(log.contains("forty\ntwo\n/workspace") && log.ends_with("The answer is written.\n"), "{log}");
    assert_summary(&world.task("first"));
    let asked = model.requests().iter().map(|request| Conversation::new(request.clone()).asked()).collect::<Vec<_>>();
    assert!(asked.contains(&"write \"the\" $answer".to_owned()), "the prompt is passed on as it is: {asked:?}");

    let run = world.orrery(&["run", "once more", "--agent", "coder", "--name", "second"]);
    let log = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && log.ends_with("The answer is written.\n"), "{log}");

    // The agent's binary is on this machine once, not once a Pod.
    let sizes = world.on_server("coder", "du -sm /tools | cut -f1");
    assert!(sizes.trim().parse::<u32>().unwrap() < 5, "/tools holds {sizes} MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_goes_on_when_the_plane_is_killed_and_started_again() {
    let model = Model::start(writes_a_file).await;
    let mut world = World::start();
    world.apply(&[agent("coder", &model.config())]);
    world.wait("agent/coder", "condition=ServerReady");
    world.apply(&[task("before", ("agentRef", "coder"), "write the answer")]);
    world.wait("task/before", "condition=Complete");
    let which = "jsonpath={.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}";
    let server = ["get", "pods", "-l", "kubeopencode.io/agent=coder", "-o", which];
    let before = world.kubectl(&server);
    world.restart();
    world.apply(&[task("after", ("agentRef", "coder"), "again")]);
    world.wait("task/after", "condition=Complete");
    assert_eq!(before, world.kubectl(&server), "the server was neither replaced nor restarted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_a_template_does_the_same_in_a_pod_of_its_own() {
    let model = Model::start(writes_a_file).await;
    let world = World::start();
    world.apply(&[template("coder", &model.config()), task("alone", ("templateRef", "coder"), "write the answer")]);
    world.wait("task/alone", "condition=Complete");
    let log = world.kubectl(&["logs", "alone-pod", "-c", "agent"]);
    assert!(log.contains("forty\ntwo") && log.contains("The answer is written."), "{log}");
    assert_summary(&world.task("alone"));
}

/// Never finishes its first turn; says when it was asked.
struct Endless(Arc<Notify>);

impl Script for Endless {
    fn turn(&self, conversation: Conversation) -> futures::future::BoxFuture<'static, Turn> {
        if !conversation.offers("write") {
            return Box::pin(std::future::ready(Turn::say("a title")));
        }
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_task_ends_its_session_on_the_server() {
    let asked = Arc::new(Notify::new());
    let model = Model::start(Endless(asked.clone())).await;
    let world = World::start();
    world.apply(&[agent("coder", &model.config())]);
    world.wait("agent/coder", "condition=ServerReady");
    world.apply(&[task("long", ("agentRef", "coder"), "think for ever")]);
    tokio::time::timeout(Duration::from_mins(2), asked.notified()).await.expect("the agent asks the model");
    let busy = world.on_server("coder", "curl -s localhost:4096/session/status");
    assert!(busy.contains("busy"), "{busy}");
    assert!(world.orrery(&["stop", "long"]).status.success());
    world.wait("task/long", "condition=Stopped");
    assert_eq!(world.task("long")["status"]["phase"], "Completed");
    let idle = world.on_server("coder", "curl -s localhost:4096/session/status");
    assert!(!idle.contains("busy"), "the server still works for a Task that was stopped: {idle}");
}

/// Nothing is asked of the machine's speed here: the model never answers, so that only the timeout can end it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_takes_too_long_ends_its_session_on_the_server_too() {
    let asked = Arc::new(Notify::new());
    let model = Model::start(Endless(asked.clone())).await;
    let world = World::start();
    world.apply(&[agent("coder", &model.config())]);
    world.wait("agent/coder", "condition=ServerReady");
    world.apply(&[task("long", ("agentRef", "coder"), "think for ever")]);
    tokio::time::timeout(Duration::from_mins(2), asked.notified()).await.expect("the agent asks the model");
    let busy = world.on_server("coder", "curl -s localhost:4096/session/status");
    assert!(busy.contains("busy"), "{busy}");
    // Its time is over as soon as it has one: it has run for a second at least.
    world.kubectl(&["patch", "task", "long", "--type=merge", "-p", r#"{"spec":{"timeout":"1s"}}"#]);
    world.wait("task/long", "condition=Stopped");
    let ended = world.task("long");
    let conditions = ended["status"]["conditions"].as_array().unwrap();
    let stopped = conditions.iter().find(|condition| condition["type"] == "Stopped").unwrap();
    assert_eq!((&stopped["reason"], &ended["status"]["phase"]), (&json!("Timeout"), &json!("Completed")), "{ended:#}");
    let idle = world.on_server("coder", "curl -s localhost:4096/session/status");
    assert!(!idle.contains("busy"), "the server still works for a Task whose time is over: {idle}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_in_an_error_fails_its_task_and_says_why() {
    let model = Model::start(|_: &Conversation| Turn::refuse("the key of this test is not valid")).await;
    let world = World::start();
    world.apply(&[
        agent("coder", &model.config()),
        template("coder", &model.config()),
        task("alone", ("templateRef", "coder"), "write the answer"),
    ]);
    world.wait("agent/coder", "condition=ServerReady");
    world.apply(&[task("attached", ("agentRef", "coder"), "write the answer")]);
    for name in ["alone", "attached"] {
        world.wait(&format!("task/{name}"), "condition=Failed");
        let task = world.task(name);
        let conditions = task["status"]["conditions"].as_array().unwrap();
        let failed = conditions.iter().find(|condition| condition["type"] == "Failed").unwrap();
        assert_eq!(failed["reason"], "SessionError", "{task:#}");
        assert!(failed["message"].as_str().unwrap().contains("the key of this test is not valid"), "{task:#}");
        let why = world.orrery(&["why", "task", name]);
        assert!(String::from_utf8_lossy(&why.stdout).contains("the key of this test is not valid"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_agent_sleeps_and_a_task_wakes_it() {
    let model = Model::start(writes_a_file).await;
    let world = World::start();
    let mut sleepy = agent("sleepy", &model.config());
    sleepy["spec"]["standby"] = json!({ "idleTimeout": "2s" });
    world.apply(&[sleepy]);
    world.wait("agent/sleepy", "condition=Suspended");
    world.wait("deploy/sleepy-server", "jsonpath={.spec.replicas}=0");
    let agent: Value = serde_json::from_str(&world.kubectl(&["get", "agent", "sleepy", "-o", "json"])).unwrap();
    let conditions = agent["status"]["conditions"].as_array().unwrap();
    let suspended = conditions.iter().find(|condition| condition["type"] == "Suspended").unwrap();
    assert_eq!((&suspended["reason"], &agent["status"]["suspended"]), (&json!("Standby"), &json!(true)), "{agent:#}");
    let why = world.orrery(&["why", "agent", "sleepy"]);
    assert!(String::from_utf8_lossy(&why.stdout).contains("the next Task wakes it"));
    world.apply(&[task("wakes", ("agentRef", "sleepy"), "write the answer")]);
    world.wait("task/wakes", "condition=Complete");
    world.wait("agent/sleepy", "condition=Suspended");
}
