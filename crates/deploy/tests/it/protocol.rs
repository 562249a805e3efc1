//! The adapter, driven as its caller drives it: lines in, lines out.

use async_trait::async_trait;
use kube::Client;
use orrery_deploy::adapter::{Adapter, Connect, LONGEST_LINE};
use orrery_deploy::kubernetes::Config;
use orrery_deploy::{Failure, Patience};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::shop::{OMNIA, Shop, pack};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::deployer::patience;

struct To(Option<Client>);

#[async_trait]
impl Connect for To {
    async fn connect(&self, _: &Config) -> Result<Client, Failure> {
        Ok(self.0.clone().expect("this request needs no cluster"))
    }
}

/// The caller's side, as `PromptKit`'s client behaves: one request at a time, ids from 1.
struct Driver {
    answers: BufReader<ReadHalf<DuplexStream>>,
    requests: WriteHalf<DuplexStream>,
    id: u64,
    served: std::thread::JoinHandle<std::io::Result<()>>,
}

impl Driver {
    fn start(client: Option<Client>) -> Self {
        Self::with(client, patience())
    }

    fn with(client: Option<Client>, patience: Patience) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (requests, answers) = tokio::io::split(theirs);
        // On one thread of its own, as in a process of its own.
        let served = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let adapter = Adapter { connect: To(client), patience };
            runtime.block_on(adapter.serve(BufReader::new(requests), answers))
        });
        let (answers, requests) = tokio::io::split(ours);
        Self { answers: BufReader::new(answers), requests, id: 0, served }
    }

    async fn line(&mut self, line: &str) -> Value {
        // Side by side: neither side may wait for the other to read.
        let mut answer = String::new();
        let text = format!("{line}\n");
        let (written, read) =
            tokio::join!(self.requests.write_all(text.as_bytes()), self.answers.read_line(&mut answer));
        written.unwrap();
        read.unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    async fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.id += 1;
        let request = json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": self.id });
        let answer = self.line(&request.to_string()).await;
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(self.id)), "{answer}");
        match answer.get("error") {
            None => Ok(answer["result"].clone()),
            Some(error) => {
                assert_eq!(error["code"], -32603, "{error}");
                Err(error["message"].as_str().unwrap().to_owned())
            }
        }
    }
}

fn config(more: &Value) -> String {
    let mut config = json!({ "workspace": "default", "providers": { "default": "mock" } });
    for (name, value) in more.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    config.to_string()
}

fn deploy(pack: &Value, state: &str) -> Value {
    json!({ "pack_json": pack.to_string(), "deploy_config": config(&json!({})), "arena_config": "{}", "environment": "default", "prior_state": state })
}

fn deployed(state: &str) -> Value {
    json!({ "deploy_config": config(&json!({})), "environment": "default", "prior_state": state })
}

#[tokio::test]
async fn a_pack_lives_and_dies_over_the_wire() {
    let shop = Shop::open().await;
    let mut driver = Driver::start(Some(shop.plane.client()));
    let first = pack("1.0.0", &["a", "b"], true, &["x"]);
    let plan = driver.call("plan", &deploy(&first, "")).await.unwrap();
    assert_eq!(plan["summary"], "Plan: 6 to create, 0 to update, 0 to delete");
    assert_eq!(
        plan["changes"][0],
        json!({ "type": "configmap", "name": "my-pack-packdata", "action": "CREATE", "detail": "Create ConfigMap with pack data for my-pack" })
    );
    assert_eq!(plan["changes"][2]["detail"], "Create ToolRegistry with 1 tools");

    let applied = driver.call("apply", &deploy(&first, "")).await.unwrap();
    let state = applied["adapter_state"].as_str().unwrap().to_owned();
    let read: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(
        (&read["pack_id"], &read["version"], read["resources"].as_array().unwrap().len()),
        (&json!("my-pack"), &json!("1.0.0"), 6)
    );
    for field in ["type", "name", "uid", "resource_version"] {
        assert!(read["resources"][0][field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {read}");
    }
    assert_eq!(read["resources"][0]["status"], "created");
    let events = applied["events"].as_array().unwrap();
    assert_eq!(events[0], json!({ "type": "progress", "message": "Creating configmap: my-pack-packdata (0%)" }));
    let resource = events.iter().find(|event| event["type"] == "resource").unwrap();
    assert_eq!(
        (&resource["resource"]["action"], &resource["resource"]["status"]),
        (&json!("CREATE"), &json!("created"))
    );
    assert_eq!(events.last().unwrap()["type"], "complete");

    let status = driver.call("status", &deployed(&state)).await.unwrap();
    assert_eq!(status["resources"].as_array().unwrap().len(), 6);
    assert!(status["state"].is_string());

    let plan = driver.call("plan", &deploy(&pack("1.1.0", &["a"], true, &["x"]), &state)).await.unwrap();
    assert_eq!(plan["summary"], "Plan: 0 to create, 5 to update, 1 to delete");
    assert!(plan["changes"][1]["detail"].as_str().unwrap().contains("spec.version: \"1.0.0\" → \"1.1.0\""), "{plan}");

    let destroyed = driver.call("destroy", &deployed(&state)).await.unwrap();
    assert_eq!(destroyed["status"], "destroyed");
    let messages: Vec<&str> =
        destroyed["events"].as_array().unwrap().iter().map(|event| event["message"].as_str().unwrap()).collect();
    assert_eq!(messages[..2], ["Destroying 6 resources", "Step 1: deleting agent_runtime resources (2)"]);
    assert_eq!(messages.last(), Some(&"Destroy complete"));
    assert!(shop.owned("default").await.is_empty());
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_is_never_taken_for_real() {
    let shop = Shop::open().await;
    let mut driver = Driver::start(Some(shop.plane.client()));
    let mut request = deploy(&pack("1.0.0", &[], false, &[]), "");
    request["deploy_config"] = json!(config(&json!({ "dry_run": true })));
    let applied = driver.call("apply", &request).await.unwrap();
    assert!(shop.owned("default").await.is_empty());
    let state = applied["adapter_state"].as_str().unwrap();
    let read: Value = serde_json::from_str(state).unwrap();
    assert!(
        read["dry_run"] == true && read["resources"].as_array().unwrap().iter().all(|r| r["status"] == "planned"),
        "{read}"
    );
    let status = driver.call("status", &deployed(state)).await.unwrap();
    assert_eq!(status["status"], "not_deployed");
    let plan = driver.call("plan", &deploy(&pack("1.0.0", &[], false, &[]), state)).await.unwrap();
    assert_eq!(plan["summary"], "Plan: 3 to create, 0 to update, 0 to delete");
}

#[tokio::test]
async fn a_partial_destroy_is_an_error_that_lists_what_is_left() {
    let shop = Shop::open().await;
    let mut driver = Driver::start(Some(shop.plane.client()));
    let applied = driver.call("apply", &deploy(&pack("1.0.0", &[], false, &[]), "")).await.unwrap();
    let state = applied["adapter_state"].as_str().unwrap().to_owned();
    let path = format!("{OMNIA}/namespaces/default/agentruntimes/my-pack");
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    assert_eq!(shop.plane.patch(&path, "merge-patch+json", &held).await.code, 200);
    let mut impatient = Driver::with(Some(shop.plane.client()), hasty());
    let refused = impatient.call("destroy", &deployed(&state)).await.expect_err("something is left");
    assert!(refused.contains("left: agent_runtime/my-pack") && refused.contains("example.com/hold"), "{refused}");
    assert_eq!(shop.owned("default").await.len(), 1, "the rest is deleted all the same");
    let released = json!({ "metadata": { "finalizers": null } });
    shop.plane.patch(&path, "merge-patch+json", &released).await;
    assert_eq!(driver.call("destroy", &deployed(&state)).await.unwrap()["status"], "destroyed");
}

fn hasty() -> Patience {
    Patience { settle: std::time::Duration::from_millis(50), ..patience() }
}

#[tokio::test]
async fn a_partial_apply_is_a_result_with_a_state() {
    // Nobody makes the runtime ready.
    let shop = Shop::without_operator().await;
    let mut driver = Driver::with(Some(shop.plane.client()), hasty());
    let applied = driver.call("apply", &deploy(&pack("1.0.0", &[], false, &[]), "")).await.unwrap();
    let state: Value = serde_json::from_str(applied["adapter_state"].as_str().unwrap()).unwrap();
    let fared: Vec<&Value> =
        state["resources"].as_array().unwrap().iter().map(|resource| &resource["status"]).collect();
    assert_eq!(fared, ["created", "created", "failed"]);
    assert!(state["resources"][2]["uid"].is_string(), "it is there, although it does not work");
    let error = applied["events"].as_array().unwrap().iter().find(|event| event["type"] == "error").unwrap();
    assert_eq!(error["resource"]["status"], "failed");
    assert!(
        error["message"].as_str().unwrap().contains("create agent_runtime \"my-pack\" failed: it is not Ready"),
        "{error}"
    );
    assert!(applied["events"].as_array().unwrap().iter().all(|event| event["type"] != "complete"));
}

#[tokio::test]
async fn an_object_is_imported() {
    let shop = Shop::open().await;
    let mut driver = Driver::start(Some(shop.plane.client()));
    let theirs = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "my-pack-packdata" } });
    shop.plane.post("/api/v1/namespaces/default/configmaps", &theirs).await;
    let mut request = deployed("");
    request["resource_type"] = json!("configmap");
    request["resource_name"] = json!("my-pack-packdata");
    request["identifier"] = json!("default/my-pack-packdata");
    let imported = driver.call("import", &request).await.unwrap();
    assert_eq!(imported["resource"], json!({ "type": "configmap", "name": "my-pack-packdata", "status": "healthy" }));
    let applied = driver
        .call("apply", &deploy(&pack("1.0.0", &[], false, &[]), imported["state"].as_str().unwrap()))
        .await
        .unwrap();
    assert!(applied["adapter_state"].as_str().unwrap().contains("\"updated\""));
    request["identifier"] = json!("other");
    assert!(driver.call("import", &request).await.expect_err("renamed").contains("keep their names"));
}

#[rstest]
#[case("plan")]
#[case("apply")]
#[case("destroy")]
#[case("status")]
#[case("import")]
#[tokio::test]
async fn every_verb_checks_the_whole_configuration(#[case] verb: &str) {
    let mut driver = Driver::start(None);
    let params = json!({ "pack_json": "{}", "deploy_config": r#"{"workspace":"X Y","runtime":{"replicas":0},"api_token":"hush","nonsense":1}"#,
        "resource_type": "configmap", "resource_name": "x", "identifier": "x", "prior_state": "" });
    let refused = driver.call(verb, &params).await.expect_err("invalid");
    for problem in ["workspace", "providers is required", "runtime.replicas", "nonsense"] {
        assert!(refused.contains(problem), "{problem}: {refused}");
    }
    assert!(!refused.contains("hush"));
}

#[tokio::test]
async fn configurations_are_judged_without_an_error() {
    let mut driver = Driver::start(None);
    let judged = driver.call("validate_config", &json!({ "config": "{}" })).await.unwrap();
    assert_eq!((judged["valid"].as_bool(), judged["errors"].as_array().unwrap().len()), (Some(false), 2));
    let fine = json!({ "config": r#"{"workspace":"w","providers":{"a":"b"}}"# });
    let judged = driver.call("validate_config", &fine).await.unwrap();
    assert_eq!(judged["valid"], true);
    assert!(judged["warnings"][0].as_str().unwrap().contains("default"), "{judged}");
}

#[tokio::test]
async fn lines_are_answered_one_by_one_with_the_right_codes() {
    let mut driver = Driver::start(None);
    let info = driver.line(r#"{"jsonrpc":"2.0","method":"get_provider_info","id":1}"#).await;
    assert_eq!((&info["result"]["name"], &info["id"]), (&json!("omnia"), &json!(1)));
    assert!(info["result"]["config_schema"].as_str().unwrap().contains("workspace"));
    for (line, code, message, id) in [
        ("{nonsense", -32700, "parse error", Value::Null),
        (r#"{"method":"plan","id":"x"}"#, -32700, "invalid params: ", json!("x")),
        (r#"{"method":"plan","params":{"pack_json":1},"id":2}"#, -32700, "invalid params: ", json!(2)),
        (r#"{"method":"get_login_url","params":{},"id":3}"#, -32601, "method not found: get_login_url", json!(3)),
        (r#"{"method":"surprise"}"#, -32601, "method not found: surprise", Value::Null),
        ("\n\n{\"method\":\"surprise\",\"id\":[1.50]}", -32601, "method not found", json!([1.50])),
    ] {
        let answer = driver.line(line).await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().starts_with(message), "{answer}");
        assert!(answer.get("result").is_none() && answer["error"].get("data").is_none());
    }
}

#[tokio::test]
async fn a_request_of_nine_mebibytes_is_read_and_its_pack_refused_with_both_sizes() {
    let mut driver = Driver::start(None);
    let mut large = pack("1.0.0", &[], false, &[]);
    large["prompts"]["default"]["system_template"] = json!("x".repeat(9 * 1024 * 1024));
    let size = large.to_string().len();
    let refused = driver.call("plan", &deploy(&large, "")).await.expect_err("too large");
    assert!(refused.contains(&format!("the pack has {size} bytes, a ConfigMap holds at most 1048576")), "{refused}");
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_adapter() {
    let mut driver = Driver::start(None);
    let long = vec![b'x'; LONGEST_LINE + 2];
    // It stops reading, so that the rest of the line may find nobody.
    let _ = driver.requests.write_all(&long).await;
    let ended = driver.served.join().unwrap().expect_err("too long");
    assert!(ended.to_string().contains("longer than 10485760 bytes"), "{ended}");
}

#[tokio::test]
async fn the_state_of_another_workspace_is_set_aside_and_said() {
    let shop = Shop::open().await;
    shop.namespace("live").await;
    let mut driver = Driver::start(Some(shop.plane.client()));
    let pack = pack("1.0.0", &[], false, &[]);
    let applied = driver.call("apply", &deploy(&pack, "")).await.unwrap();
    let state = applied["adapter_state"].as_str().unwrap();
    let mut elsewhere = deploy(&pack, state);
    elsewhere["deploy_config"] = json!(r#"{"workspace":"live","providers":{"default":"mock"}}"#);
    let plan = driver.call("plan", &elsewhere).await.unwrap();
    assert_eq!(plan["summary"], "Plan: 3 to create, 0 to update, 0 to delete");
    assert!(
        plan["warnings"][0].as_str().unwrap().contains("the state is of kubernetes:default and was set aside"),
        "{plan}"
    );
    let mut destroy = deployed(state);
    destroy["deploy_config"] = elsewhere["deploy_config"].clone();
    assert!(
        driver
            .call("destroy", &destroy)
            .await
            .expect_err("not its state")
            .contains("the configuration says kubernetes:live")
    );
}
