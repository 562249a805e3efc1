//! A canary on a real plane: two versions of a pack, a router between them, and a client that never stops asking.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::omnia::{PATIENCE, World, content, object};
use crate::plane::Plane;

fn pack(version: &str, canary: &Value) -> Value {
    object(
        "PromptPack",
        "support",
        &json!({ "version": version, "source": { "type": "configmap", "configMapRef": { "name": "content" } },
            "rollout": { "type": "canary", "canary": canary } }),
    )
}

/// Asks the agent through its Service, for each of some sessions in turn, and prints who answered. A connection that comes
/// to nothing is tried again, as clients do; an answer that says no is not.
const ASK: &str = r#"for i in $(seq 60); do for n in 1 2 3 4 5 6; do out=$(curl -s -m 10 -H "X-Omnia-Session: s$i" -H 'content-type: application/json' -d '{"message":"x"}' -w ' %{http_code}|%{errormsg}' http://helper:8080/v1/chat); case "$out" in *" 000|"*) sleep 1;; *) break;; esac; done; echo "$i $out"; done"#;

/// Whether anybody answers.
const ANY: &str = "curl -sf -m 5 -o /dev/null -H 'content-type: application/json' -d '{\"message\":\"x\"}' http://helper:8080/v1/chat";

/// A script in a Pod of the agent.
fn inside(script: &str) -> [&str; 8] {
    ["exec", "deploy/helper", "-c", "facade", "--", "sh", "-c", script]
}

impl World {
    /// Who answers each session.
    fn visit(&self) -> BTreeMap<String, String> {
        let said = self.kubectl(&inside(ASK)).unwrap();
        said.lines().map(|line| answer(line).unwrap_or_else(|| panic!("{said}\n{}", self.0.log()))).collect()
    }

    fn ask_for_ever(&self) -> Child {
        let script = format!("rm -f /tmp/stop; while [ ! -e /tmp/stop ]; do {ASK}; done");
        let mut command = Command::new(crate::kubectl::find_kubectl());
        command.args(inside(&script)).env("KUBECONFIG", self.0.kubeconfig());
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn until(&self, what: &[&str], wanted: &str) {
        let begin = Instant::now();
        loop {
            let found = self.kubectl(what);
            if found.as_deref() == Ok(wanted) {
                return;
            }
            let told = || self.kubectl(&["get", "agentruntimes,promptpacks,deployments,pods", "-o", "yaml"]);
            assert!(begin.elapsed() < PATIENCE, "{found:?}\n{}\n{}", told().unwrap_or_default(), self.0.log());
        }
    }
}

/// The session and the version in a line of the client.
fn answer(line: &str) -> Option<(String, String)> {
    let (session, rest) = line.split_once(' ')?;
    let (body, code) = rest.rsplit_once('|')?.0.rsplit_once(' ')?;
    let version = serde_json::from_str::<Value>(body).ok()?["packVersion"].as_str()?.to_owned();
    (code == "200").then(|| (session.to_owned(), version))
}

const LEADS: &[&str] =
    &["get", "service", "helper", "-o", "jsonpath={.spec.selector['omnia\\.altairalabs\\.ai/component']}"];

#[test]
fn a_canary_gets_its_share_of_real_sessions_and_is_promoted() {
    let world = World(Plane::start());
    world.apply(&content("1.0.0", "You help."));
    world.apply(&pack("1.0.0", &json!({ "weight": 20 })));
    let helper = json!({ "promptPackRef": { "name": "support" }, "facade": {}, "provider": { "type": "mock" } });
    world.apply(&object("AgentRuntime", "helper", &helper));
    world.wait("agentruntime/helper", "condition=Ready");
    world.until(LEADS, "agent");

    world.apply(&content("1.1.0", "You serve."));
    world.apply(&pack("1.1.0", &json!({ "weight": 20 })));
    world.wait("promptpack/support", "jsonpath={.status.phase}=Canary");
    world.wait("agentruntime/helper", "jsonpath={.status.canary.weight}=20");
    world.until(LEADS, "router");
    let first = world.visit();
    let new = first.values().filter(|version| *version == "1.1.0").count();
    assert!((1..=30).contains(&new), "{new} of 60 at 20 %");
    assert_eq!(world.visit(), first, "no session switches");

    // What was measured reaches the pack.
    let begin = Instant::now();
    loop {
        let status = world.kubectl(&["get", "promptpack", "support", "-o", "jsonpath={.status.canary}"]).unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        let all = status["canary"]["requests"].as_i64().unwrap() + status["stable"]["requests"].as_i64().unwrap();
        if all >= 120 {
            assert_eq!(status["canary"]["requests"], json!(2 * new), "{status}");
            assert_eq!((&status["canary"]["errors"], &status["stage"]), (&json!(0), &json!("Running")), "{status}");
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{status}");
    }

    // The router dies; the next one knows where everybody was.
    let router = "omnia.altairalabs.ai/component=router";
    world.kubectl(&["delete", "pod", "-l", router, "--grace-period=0", "--force"]).unwrap();
    let again = format!("for i in $(seq 300); do {ANY} && exit 0; sleep 0.2; done; exit 1");
    world.kubectl(&inside(&again)).unwrap();
    assert_eq!(world.visit(), first);

    // Promotion, while everybody goes on asking.
    let mut client = world.ask_for_ever();
    let patch = json!({ "spec": { "rollout": { "canary": { "promote": "1.1.0" } } } }).to_string();
    world.kubectl(&["patch", "promptpack", "support", "--type=merge", "-p", &patch]).unwrap();
    world.wait("promptpack/support", "jsonpath={.status.activeVersion}=1.1.0");
    world.until(LEADS, "agent");
    world.until(&["get", "deployments", "-o", "name"], "deployment.apps/helper\n");
    let after = world.visit();
    world.kubectl(&inside("touch /tmp/stop")).unwrap();
    let mut said = String::new();
    client.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    client.wait().unwrap();
    assert!(after.values().all(|version| version == "1.1.0"), "{after:?}");

    let mut sessions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in said.lines() {
        let (session, version) = answer(line).unwrap_or_else(|| panic!("a request was lost: {line}"));
        sessions.entry(session).or_default().push(version);
    }
    for (session, mut versions) in sessions {
        versions.insert(0, first[&session].clone());
        versions.dedup();
        let allowed = versions.len() == 1 || versions == ["1.0.0", "1.1.0"];
        assert!(allowed, "session {session} went {versions:?}");
    }
}
