//! `orrery deploy`, and the same program as an adapter, against a plane.

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testkit::shop::{self, Shop, pack};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::omnia::{World, object};
use crate::plane::Plane;
use crate::promptarena;

/// Nobody but the server may ever see it.
const TOKEN: &str = "hush-hush-token";

/// A folder with a configuration and packs, and a plane to deploy to.
struct Desk {
    shop: Shop,
    folder: tempfile::TempDir,
}

impl Desk {
    async fn at(shop: Shop) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap(), shop };
        let url = desk.shop.plane.serve().await;
        let config = json!({ "workspace": "default", "providers": { "default": "mock" }, "api_endpoint": url, "api_token": TOKEN });
        promptarena::arena(desk.folder.path(), &config);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pack(&self, pack: &Value) {
        fs::write(self.path("pack.json"), pack.to_string()).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command.arg("deploy").args(arguments).args(["--pack", "pack.json"]).current_dir(self.folder.path());
        command.kill_on_drop(true);
        command
    }

    /// The exit code and what was printed. The token is nowhere in it.
    async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        told(&self.command(arguments).output().await.unwrap())
    }

    async fn good(&self, arguments: &[&str]) -> String {
        let (code, out, error) = self.run(arguments).await;
        assert_eq!(code, 0, "{arguments:?}: {out}{error}");
        out
    }
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(!out.contains(TOKEN) && !error.contains(TOKEN), "{out}{error}");
    (output.status.code().unwrap_or(-1), out, error)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_is_planned_applied_changed_and_destroyed() {
    let desk = Desk::at(Shop::open().await).await;
    desk.pack(&pack("1.0.0", &[], false, &[]));
    let (code, out, _) = desk.run(&["plan", "--detailed-exitcode", "--out", "saved"]).await;
    assert_eq!(code, 2);
    assert_eq!(
        out,
        "+ configmap my-pack-packdata Create\n+ prompt_pack my-pack Create\n+ agent_runtime my-pack Create\n\
         Plan: 3 to create, 0 to update, 0 to delete\n"
    );
    assert!(!fs::read_to_string(desk.path("saved")).unwrap().contains(TOKEN));
    let (code, out, error) = desk.run(&["apply", "saved"]).await;
    assert_eq!((code, out.as_str()), (0, "my-pack 1.0.0: 3 created, 0 updated, 0 deleted, 0 failed\n"), "{error}");
    for line in ["Creating configmap: my-pack-packdata (0%)", "Creating agent_runtime: my-pack (80%)", "Apply complete"]
    {
        assert!(error.contains(line), "{error}");
    }
    let (code, _, error) = desk.run(&["apply", "saved"]).await;
    assert!(code == 1 && error.contains("the plan is stale"), "{error}");
    let (code, out, _) = desk.run(&["plan", "--detailed-exitcode"]).await;
    assert_eq!((code, out.lines().next().unwrap()), (0, "Nothing to do: everything is as it should be."));
    let secret = desk.shop.object("/api/v1/namespaces/default/secrets/orrery-deploy-my-pack").await.to_string();
    assert!(!secret.contains(TOKEN));

    // The first example of the document, line for line.
    desk.pack(&pack("1.1.0", &[], false, &["drop"]));
    let out = desk.good(&["plan"]).await;
    let lines: Vec<&str> = out.lines().filter(|line| !line.starts_with("    ")).collect();
    assert_eq!(
        lines[..4],
        [
            "~ configmap my-pack-packdata Update",
            "~ prompt_pack my-pack Update",
            "+ agent_policy my-pack-policy Create",
            "~ agent_runtime my-pack Update",
        ]
    );
    assert!(out.contains("    spec.version: \"1.0.0\" → \"1.1.0\"\n"), "{out}");
    let applied: Value = serde_json::from_str(&desk.good(&["apply", "-o", "json"]).await).unwrap();
    assert_eq!((&applied["failures"], &applied["state"]["version"]), (&json!([]), &json!("1.1.0")));
    let status: Value = serde_json::from_str(&desk.good(&["status", "-o", "json"]).await).unwrap();
    assert_eq!(status["resources"].as_array().unwrap().len(), 4);
    assert_eq!(desk.good(&["refresh"]).await, "Nobody else changed anything.\n");
    assert_eq!(desk.good(&["destroy"]).await, "destroyed\n");
    assert!(desk.shop.owned("default").await.is_empty());
    let gone = desk.shop.plane.get("/api/v1/namespaces/default/secrets/orrery-deploy-my-pack").await;
    assert_eq!(gone.code, 404, "the state goes with what it describes");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_apply_leaves_a_true_state_and_no_lock() {
    let desk = Desk::at(Shop::without_operator().await).await;
    desk.pack(&pack("1.0.0", &[], false, &[]));
    let mut apply = desk.command(&["apply", "--state", "state.json"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = tokio::io::BufReader::new(apply.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Waiting for agent_runtime") {
        line.clear();
        let read = tokio::io::AsyncBufReadExt::read_line(&mut said, &mut line).await.unwrap();
        assert!(read > 0, "it ended too soon");
    }
    let process = Pid::from_raw(i32::try_from(apply.id().unwrap()).unwrap());
    let (code, _, error) = desk.run(&["apply", "--state", "state.json"]).await;
    assert!(code == 1 && error.contains(&format!("process {process}")), "the loser is told who has the lock: {error}");
    kill(process, Signal::SIGINT).unwrap();
    assert_eq!(apply.wait().await.unwrap().code(), Some(1));
    let state: Value = serde_json::from_str(&fs::read_to_string(desk.path("state.json")).unwrap()).unwrap();
    let fared: Vec<&Value> =
        state["resources"].as_array().unwrap().iter().map(|resource| &resource["status"]).collect();
    assert_eq!(fared, ["created", "created", "failed"]);
    let operator = tokio::spawn(shop::operate(desk.shop.plane.client()));
    desk.good(&["apply", "--state", "state.json"]).await;
    assert_eq!(desk.good(&["destroy", "--state", "state.json"]).await, "destroyed\n");
    operator.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_broken_only_with_its_id() {
    let desk = Desk::at(Shop::open().await).await;
    desk.pack(&pack("1.0.0", &[], false, &[]));
    let mut store = deploy::state::SecretStore::new(desk.shop.plane.client(), "default", "my-pack", None);
    let lock = deploy::state::Lock::new("apply");
    deploy::state::Store::lock(&mut store, &lock).await.unwrap();
    let (code, _, error) = desk.run(&["apply"]).await;
    assert!(code == 1 && error.contains(&format!("orrery deploy unlock --id {}", lock.id)), "{error}");
    assert_eq!(desk.run(&["unlock", "--id", "other"]).await.0, 1);
    desk.good(&["unlock", "--id", &lock.id]).await;
    desk.good(&["apply"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_in_words() {
    let desk = Desk::at(Shop::open().await).await;
    let mut wrong = pack("one", &[], false, &[]);
    wrong["prompts"]["default"]["tool_policy"] = json!({ "max_rounds": 0 });
    desk.pack(&wrong);
    let (code, _, error) = desk.run(&["plan"]).await;
    assert!(
        code == 1 && error.contains("/version") && error.contains("/prompts/default/tool_policy/max_rounds"),
        "{error}"
    );
    let (code, _, error) = desk.run(&["plan", "--target", "agentcore"]).await;
    assert!(code == 1 && error.contains("cannot deploy to AgentCore"), "{error}");
    let (code, _, error) = desk.run(&["plan", "--env", "moon"]).await;
    assert!(code == 1 && error.contains("there is no environment \"moon\""), "{error}");
}

#[tokio::test]
async fn the_adapter_answers_on_standard_output_and_logs_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("adapter.log");
    let mut process = Command::new(promptarena::adapter(folder.path()))
        .env("ORRERY_DEPLOY_LOG", &log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let refused = json!({ "method": "plan", "params": { "pack_json": "{}", "deploy_config": json!({ "api_token": TOKEN }).to_string() }, "id": 2 });
    input.write_all(format!("{}\n{refused}\n", r#"{"method":"get_provider_info","id":1}"#).as_bytes()).await.unwrap();
    drop(input);
    let output = process.wait_with_output().await.unwrap();
    let (code, out, _) = told(&output);
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, answers.len()), (0, 2), "{out}");
    assert_eq!((&answers[0]["result"]["name"], &answers[1]["error"]["code"]), (&json!("omnia"), &json!(-32603)));
    let logged = fs::read_to_string(log).unwrap();
    assert!(logged.contains("get_provider_info") && !logged.contains(TOKEN), "{logged}");
}

/// The command line that the protocol was made for, through a whole life.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Go, or a promptarena: make test-kubernetes"]
async fn promptarena_drives_the_adapter() {
    let desk = Desk::at(Shop::open().await).await;
    let owned = async || desk.shop.owned("default").await.len();
    promptarena::whole_life(desk.folder.path(), None, owned).await;
}

/// Nobody plays the controllers here: what is deployed is a working agent.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_deployed_to_a_real_plane_answers() {
    let world = World(Plane::start());
    world.apply(&object("Provider", "mock", &json!({ "type": "mock" })));
    let folder = tempfile::tempdir().unwrap();
    promptarena::arena(folder.path(), &json!({ "workspace": "default", "providers": { "default": "mock" } }));
    let deploy = async |version: &str, arguments: &[&str]| {
        let pack = pack(version, &["agent-a", "agent-b"], true, &["find"]);
        fs::write(folder.path().join("pack.json"), pack.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command.arg("deploy").args(arguments).args(["--pack", "pack.json"]).current_dir(folder.path());
        told(&command.env("KUBECONFIG", world.0.kubeconfig()).kill_on_drop(true).output().await.unwrap())
    };
    let (code, out, error) = deploy("1.0.0", &["apply"]).await;
    let objects = ["get", "agentruntimes,promptpacks,toolregistries,agentpolicies,pods", "-o", "yaml"];
    assert_eq!(code, 0, "{out}{error}\n{}", world.kubectl(&objects).unwrap_or_default());
    let ready = world.kubectl(&["get", "agentruntimes", "-o", "jsonpath={.items[*].status.phase}"]);
    assert_eq!(ready, Ok("Running Running".into()), "apply ends when they run");
    assert_eq!(world.ask("agent-b", "hello")["packVersion"], "1.0.0");
    let (code, out, _) = deploy("1.0.0", &["plan", "--detailed-exitcode"]).await;
    assert_eq!(code, 0, "what the controllers write is no change: {out}");
    let (code, out, error) = deploy("1.1.0", &["apply"]).await;
    assert_eq!(code, 0, "{out}{error}");
    world.ask_until("agent-b", "hello", |answer| answer["packVersion"] == "1.1.0");
    let (code, out, error) = deploy("1.1.0", &["destroy"]).await;
    assert_eq!(code, 0, "{out}{error}");
    world.wait("deploy/agent-a", "delete");
    let left = world.kubectl(&["get", "agentruntimes,promptpacks,toolregistries,agentpolicies", "-o", "name"]);
    assert_eq!(left, Ok(String::new()));
}
