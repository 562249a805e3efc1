//! Pack → runtime → chat with tools, on a real plane, from nothing but manifests.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::plane::Plane;

pub const PATIENCE: Duration = Duration::from_mins(2);

pub struct World(pub Plane);

impl World {
    pub fn kubectl(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(crate::kubectl::find_kubectl());
        let output = command.args(words).env("KUBECONFIG", self.0.kubeconfig()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    pub fn apply(&self, object: &Value) {
        let mut command = Command::new(crate::kubectl::find_kubectl());
        command.args(["apply", "-f", "-"]).env("KUBECONFIG", self.0.kubeconfig());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{object}");
    }

    pub fn wait(&self, what: &str, condition: &str) {
        let waited = self.kubectl(&["wait", what, &format!("--for={condition}"), "--timeout=120s"]);
        let told =
            || self.kubectl(&["get", "agentruntimes,promptpacks,toolregistries,agentpolicies,pods", "-o", "yaml"]);
        assert!(waited.is_ok(), "{waited:?}\n{}\n{}", told().unwrap_or_default(), self.0.log());
    }

    /// What an agent answers, asked from inside of its own Pod.
    pub fn ask(&self, agent: &str, message: &str) -> Value {
        let body = json!({ "message": message }).to_string();
        let curl =
            ["curl", "-sS", "-H", "content-type: application/json", "-d", &body, "http://localhost:8080/v1/chat"];
        let deployment = format!("deploy/{agent}");
        let words: Vec<&str> = ["exec", &deployment, "-c", "facade", "--"].into_iter().chain(curl).collect();
        let answer = self.kubectl(&words).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Asks until the answer is as it should be: files in Pods follow their ConfigMaps after a moment.
    pub fn ask_until(&self, agent: &str, message: &str, done: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let answer = self.ask(agent, message);
            if done(&answer) {
                return answer;
            }
            assert!(begin.elapsed() < PATIENCE, "{answer}");
        }
    }
}

pub fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

pub fn content(version: &str, identity: &str) -> Value {
    content_with(version, identity, &["ask_echo"])
}

pub fn content_with(version: &str, identity: &str, tools: &[&str]) -> Value {
    let pack = json!({ "id": "support", "name": "Support", "version": version,
        "template_engine": { "version": "v1", "syntax": "{{variable}}" },
        "prompts": { "help": { "id": "help", "name": "Help", "version": "1.0.0", "system_template": identity, "tools": tools } } });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "content" }, "data": { "pack.json": pack.to_string() } })
}

pub fn pack(version: &str) -> Value {
    object(
        "PromptPack",
        "support",
        &json!({ "version": version, "source": { "type": "configmap", "configMapRef": { "name": "content" } } }),
    )
}

#[test]
fn a_pack_becomes_an_agent_that_chats_and_calls_tools_under_a_policy() {
    let world = World(Plane::start());
    world.apply(&content("1.0.0", "You help."));
    world.apply(&pack("1.0.0"));
    // The tool is another agent, which repeats what it is told.
    let echo = json!({ "promptPackRef": { "name": "support" }, "facade": { "handler": "echo" }, "provider": { "type": "mock" } });
    world.apply(&object("AgentRuntime", "echo", &echo));
    let schema =
        json!({ "type": "object", "properties": { "message": { "type": "string" } }, "required": ["message"] });
    world.apply(&object(
        "ToolRegistry",
        "desk",
        &json!({ "handlers": [{ "name": "echo", "type": "http",
        "tool": { "name": "ask_echo", "description": "Repeats.", "inputSchema": schema },
        "httpConfig": { "endpoint": "http://echo.default.svc.cluster.local:8080/v1/chat" } }] }),
    ));
    let helper = json!({ "promptPackRef": { "name": "support" }, "facade": {}, "provider": { "type": "mock" }, "toolRegistryRef": { "name": "desk" } });
    world.apply(&object("AgentRuntime", "helper", &helper));
    world.wait("agentruntime/echo", "condition=Ready");
    world.wait("toolregistry/desk", "jsonpath={.status.phase}=Ready");
    world.wait("agentruntime/helper", "condition=Ready");
    assert_eq!(
        world.kubectl(&[
            "get",
            "agentruntime",
            "helper",
            "-o",
            "jsonpath={.status.phase} {.status.replicas.ready} {.status.activeVersion}"
        ]),
        Ok("Running 1 1.0.0".into())
    );

    let answer = world.ask("helper", "hello");
    assert_eq!((&answer["content"], &answer["packVersion"]), (&json!("[You help.] You said: hello"), &json!("1.0.0")));
    let call = "call ask_echo {\"message\":\"knock knock\"}";
    let answer = world.ask_until("helper", call, |answer| answer["tools"][0]["ok"] == true);
    assert!(answer["content"].as_str().unwrap().contains("knock knock"), "{answer}");

    // A new version reaches the agent with a request, and the same Pod goes on.
    let which = ["get", "pods", "-l", "app.kubernetes.io/instance=helper", "-o", "jsonpath={.items[*].metadata.uid}"];
    let before = world.kubectl(&which);
    world.apply(&content("1.1.0", "You serve."));
    world.wait("promptpack/support", "condition=VersionsAgree=false");
    world.apply(&pack("1.1.0"));
    world.wait("promptpack/support", "jsonpath={.status.activeVersion}=1.1.0");
    world.wait("agentruntime/helper", "jsonpath={.status.activeVersion}=1.1.0");
    let answer = world.ask_until("helper", "hello", |answer| answer["packVersion"] == "1.1.0");
    assert_eq!(answer["content"], "[You serve.] You said: hello");
    assert_eq!(world.kubectl(&which), before, "no Pod was restarted");

    // A policy is enforced where tools are called.
    world.apply(&object(
        "AgentPolicy",
        "quiet",
        &json!({ "selector": { "agents": ["helper"] }, "toolBlocklist": ["ask_echo"] }),
    ));
    world.wait("agentpolicy/quiet", "condition=Enforced");
    let answer = world.ask_until("helper", call, |answer| {
        answer["tools"].as_array().is_none_or(|tools| tools.iter().all(|tool| tool["ok"] == false))
    });
    assert!(!answer["content"].as_str().unwrap().contains("The tool answered: {"), "{answer}");
}
