//! A pack, a facade, a runtime, tools and a model, each a real server on loopback.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use futures::{SinkExt as _, StreamExt as _};
use model::{Conversation, Turn};
use orrery_runtime::{Settings, facade, runtime};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

fn pack(version: &str, identity: &str) -> Value {
    json!({ "id": "p", "name": "P", "version": version, "template_engine": { "version": "v1", "syntax": "{{variable}}" },
        "prompts": { "help": { "id": "help", "name": "Help", "version": "1.0.0", "system_template": format!("{identity} {{{{who}}}}"),
            "variables": [{ "name": "who", "type": "string", "required": false, "default": "all" }],
            "tools": ["weigh", "drop"], "parameters": { "temperature": 0.5 },
            "tool_policy": { "max_rounds": 2, "max_tool_calls_per_turn": 3, "blocklist": ["drop"] } } } })
}

fn tools(port: u16, names: &[&str]) -> Value {
    let entry = |name: &&str| {
        json!({ "name": name, "type": "http", "registry": "r", "endpoint": format!("http://127.0.0.1:{port}/weigh"), "timeout": "5s", "retries": 0,
            "tool": { "name": name, "description": "weighs", "inputSchema": { "type": "object", "properties": { "what": { "type": "string" } }, "required": ["what"] } },
            "httpConfig": { "method": "POST", "contentType": "application/json" } })
    };
    json!({ "handlers": names.iter().map(entry).collect::<Vec<_>>() })
}

async fn listen(router: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

/// A tool that knows what everything weighs.
async fn scales() -> u16 {
    listen(Router::new().route("/weigh", post(|body: String| async move { format!("{body} weighs 7") }))).await
}

/// Ports that nobody has at the moment.
fn free() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

struct World {
    folder: tempfile::TempDir,
    facade: u16,
    health: (u16, u16),
    http: reqwest::Client,
    _stop: DropGuard,
}

impl World {
    async fn start(provider: &[(&str, String)], mode: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("pack.json"), &pack("1.0.0", "You help"));
        write(&folder.path().join("tools.yaml"), &tools(scales().await, &["weigh", "drop"]));
        let (port, inside, health) = (free(), free(), (free(), free()));
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let stop = CancellationToken::new();
        let mut thinking = vec![
            ("OMNIA_PROMPTPACK_PATH", path("pack.json")),
            ("OMNIA_TOOLS_CONFIG_PATH", path("tools.yaml")),
            ("OMNIA_PROMPT_NAME", "help".into()),
            ("OMNIA_GRPC_PORT", inside.to_string()),
            ("OMNIA_HEALTH_PORT", health.1.to_string()),
        ];
        thinking.extend(provider.iter().cloned());
        let facing = [
            ("OMNIA_FACADE_PORT", port.to_string()),
            ("OMNIA_HEALTH_PORT", health.0.to_string()),
            ("OMNIA_RUNTIME_HEALTH_PORT", health.1.to_string()),
            ("OMNIA_RUNTIME_ADDRESS", format!("127.0.0.1:{inside}")),
            ("OMNIA_HANDLER_MODE", mode.to_owned()),
        ];
        tokio::spawn(runtime::serve(settings(&thinking), stop.clone()));
        tokio::spawn(facade::serve(settings(&facing), stop.clone()));
        let world = Self { folder, facade: port, health, http: reqwest::Client::new(), _stop: stop.drop_guard() };
        while world.get(health.0, "/readyz").await.is_none_or(|(status, _)| status != 200) {
            tokio::task::yield_now().await;
        }
        world
    }

    async fn get(&self, port: u16, path: &str) -> Option<(u16, String)> {
        let answer = self.http.get(format!("http://127.0.0.1:{port}{path}")).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    async fn ask(&self, request: Value) -> (u16, Value) {
        let url = format!("http://127.0.0.1:{}/v1/chat", self.facade);
        let answer = self.http.post(url).json(&request).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn say(&self, message: &str) -> Value {
        let (status, answer) = self.ask(json!({ "message": message })).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    fn file(&self, name: &str, value: &Value) {
        write(&self.folder.path().join(name), value);
    }
}

fn settings(variables: &[(&str, String)]) -> Settings {
    variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn write(path: &Path, value: &Value) {
    std::fs::write(path, value.to_string()).unwrap();
}

fn mock() -> [(&'static str, String); 1] {
    [("OMNIA_PROVIDER_TYPE", "mock".to_owned())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_is_played_and_a_new_one_with_the_next_request() {
    let world = World::start(&mock(), "runtime").await;
    let answer = world.say("hello").await;
    assert_eq!(answer["content"], "[You help all] You said: hello");
    assert_eq!(answer["packVersion"], "1.0.0");
    world.file("pack.json", &pack("1.1.0", "You serve"));
    let (_, answer) = world.ask(json!({ "message": "again", "variables": { "who": "Ada" } })).await;
    assert_eq!(answer["content"], "[You serve Ada] You said: again");
    assert_eq!(answer["packVersion"], "1.1.0");
    world.file("pack.json", &json!({ "broken": true }));
    assert_eq!(world.say("still").await["packVersion"], "1.1.0", "what cannot be used changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_called_as_long_as_the_file_has_them() {
    let world = World::start(&mock(), "runtime").await;
    let answer = world.say("call weigh {\"what\":\"a feather\"}").await;
    assert_eq!(answer["content"], "The tool answered: {\"what\":\"a feather\"} weighs 7");
    assert_eq!(answer["tools"][0]["ok"], true);
    let wrong = world.say("call weigh {\"what\":1}").await;
    assert!(wrong["tools"][0]["content"].as_str().unwrap().contains("do not fit"), "{wrong}");
    let blocked = world.say("call drop {\"what\":\"x\"}").await;
    assert_eq!(blocked["tools"][0]["content"], "the tool drop may not be called", "the prompt blocks it");
    let unknown = world.say("call rm {}").await;
    assert_eq!(unknown["tools"][0]["ok"], false);
    world.file("tools.yaml", &tools(1, &["drop"]));
    let denied = world.say("call weigh {\"what\":\"a feather\"}").await;
    assert!(
        denied["tools"].as_array().unwrap().iter().all(|tool| tool["ok"] == false),
        "a policy took it away: {denied}"
    );
    let (_, metrics) = world.get(world.health.1, "/metrics").await.unwrap();
    assert!(metrics.contains("omnia_tool_calls_total{tool=\"weigh\",outcome=\"ok\"} 1"), "{metrics}");
}

/// A provider of a type at a port.
fn provider(type_: &str, port: u16) -> Vec<(&'static str, String)> {
    let version = if type_ == "openai" { "/v1" } else { "" };
    vec![
        ("OMNIA_PROVIDER_TYPE", type_.to_owned()),
        ("OMNIA_PROVIDER_BASE_URL", format!("http://127.0.0.1:{port}{version}")),
        ("OMNIA_PROVIDER_MODEL", "m".to_owned()),
        ("OPENAI_API_KEY", "k".to_owned()),
        ("ANTHROPIC_API_KEY", "k".to_owned()),
    ]
}

#[rstest]
#[case::chat_completions("openai")]
#[case::anthropics_messages("claude")]
#[case::ollamas_chat("ollama")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_asked_with_history_tools_and_limits_on_every_wire(#[case] type_: &str) {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = seen.clone();
    // It would call for ever if it were let.
    let script = move |conversation: &Conversation| {
        record.lock().unwrap().push(conversation.request().clone());
        if conversation.offers("weigh") {
            Turn::call("weigh", json!({ "what": "x" })).saying("let me see ").costing(10, 2)
        } else {
            Turn::say("it weighs 7").costing(10, 3)
        }
    };
    let port = listen(model::router(Arc::new(script))).await;
    let mut provider = provider(type_, port);
    provider.extend([
        ("OMNIA_PROVIDER_TOP_P", "0.9".to_owned()),
        ("OMNIA_PROVIDER_MAX_TOKENS", "77".to_owned()),
        ("OMNIA_PROVIDER_INPUT_COST", "1".to_owned()),
        ("OMNIA_PROVIDER_OUTPUT_COST", "10".to_owned()),
    ]);
    let world = World::start(&provider, "runtime").await;
    let answer = world.say("how heavy is x?").await;
    assert_eq!(answer["content"], "it weighs 7");
    assert_eq!(answer["tools"].as_array().unwrap().len(), 2, "max_rounds is 2");
    assert_eq!(answer["tools"][0]["content"], "{\"what\":\"x\"} weighs 7");
    assert_eq!((&answer["usage"]["inputTokens"], &answer["usage"]["outputTokens"]), (&json!(30), &json!(7)));
    assert!((answer["usage"]["cost"].as_f64().unwrap() - 0.1).abs() < 1e-9, "{answer}");
    let (_, second) = world.ask(json!({ "message": "sure?", "sessionId": answer["sessionId"] })).await;
    assert_eq!((&second["sessionId"], &second["content"]), (&answer["sessionId"], &json!("it weighs 7")), "{second}");
    let requests = seen.lock().unwrap().clone();
    let first = &requests[0];
    assert_eq!((&first["model"], &first["temperature"], &first["top_p"]), (&json!("m"), &json!(0.5), &json!(0.9)));
    assert_eq!(first["max_tokens"], 77);
    assert_eq!(first["messages"][0], json!({ "role": "system", "content": "You help all" }));
    assert_eq!(first["tools"].as_array().unwrap().len(), 1, "the blocked one is not offered");
    assert_eq!(first["tools"][0]["function"]["parameters"]["required"], json!(["what"]));
    let roles: Vec<&str> =
        requests[3]["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user"],
        "the session is remembered"
    );
    assert_eq!(requests[3]["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"what\":\"x\"}");
}

#[rstest]
#[case::chat_completions("openai")]
#[case::anthropics_messages("claude")]
#[case::ollamas_chat("ollama")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_calls_of_one_turn_are_made_and_answered(#[case] type_: &str) {
    let script = |conversation: &Conversation| match conversation.results().as_slice() {
        [] => {
            let mut turn = Turn::call("weigh", json!({ "what": "a" }));
            turn.calls.push(model::Call { tool: "weigh".into(), arguments: json!({ "what": "b" }) });
            turn
        }
        results => Turn::say(results.join(" and ")),
    };
    let port = listen(model::router(Arc::new(script))).await;
    let world = World::start(&provider(type_, port), "runtime").await;
    let answer = world.say("weigh both").await;
    assert_eq!(answer["content"], "{\"what\":\"a\"} weighs 7 and {\"what\":\"b\"} weighs 7", "{answer}");
}

#[rstest]
#[case::chat_completions("openai")]
#[case::anthropics_messages("claude")]
#[case::ollamas_chat("ollama")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_refuses_is_quoted(#[case] type_: &str) {
    let port = listen(model::router(Arc::new(|_: &Conversation| Turn::refuse("no such key")))).await;
    let world = World::start(&provider(type_, port), "runtime").await;
    let (status, answer) = world.ask(json!({ "message": "x" })).await;
    assert_eq!(status, 502);
    assert!(answer["error"].as_str().unwrap().contains("no such key"), "{answer}");
}

#[rstest]
#[case::broken_off("openai", "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n", "broke off")]
#[case::messages_broken_off("claude", "data: {\"type\":\"ping\"}\n\n", "broke off")]
#[case::chat_broken_off("ollama", "{\"message\":{\"content\":\"he\"},\"done\":false}\n", "broke off")]
#[case::completions_error("openai", "data: {\"error\":{\"message\":\"overloaded\"}}\n\n", "overloaded")]
#[case::messages_error("claude", "data: {\"type\":\"error\",\"error\":{\"message\":\"overloaded\"}}\n\n", "overloaded")]
#[case::chat_error("ollama", "{\"error\":\"overloaded\"}\n", "overloaded")]
#[case::nonsense("ollama", "<html>\n", "not JSON")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_does_not_come_to_its_end_is_an_error(
    #[case] type_: &str,
    #[case] body: &'static str,
    #[case] words: &str,
) {
    let port = listen(Router::new().fallback(async move || body)).await;
    let world = World::start(&provider(type_, port), "runtime").await;
    let (status, answer) = world.ask(json!({ "message": "x" })).await;
    assert!(status == 502 && answer["error"].as_str().unwrap().contains(words), "{status} {answer}");
}

#[rstest]
#[case::chat_completions("openai")]
#[case::anthropics_messages("claude")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_from_the_cache_have_a_price_of_their_own(#[case] type_: &str) {
    let usage = model::Usage { input: 10, cached: 4, output: 2 };
    let port = listen(model::router(Arc::new(move |_: &Conversation| Turn { usage, ..Turn::say("hi") }))).await;
    let mut provider = provider(type_, port);
    for (name, price) in [("INPUT", "1"), ("OUTPUT", "10"), ("CACHED", "0.5")] {
        provider.push((format!("OMNIA_PROVIDER_{name}_COST").leak(), price.to_owned()));
    }
    let world = World::start(&provider, "runtime").await;
    let usage = world.say("hi").await["usage"].clone();
    assert_eq!((&usage["inputTokens"], &usage["cachedTokens"]), (&json!(10), &json!(4)), "{usage}");
    assert!((usage["cost"].as_f64().unwrap() - 0.028).abs() < 1e-9, "{usage}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_follows_nobody_elsewhere() {
    let asked = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = asked.clone();
    let elsewhere = async move || seen.store(true, std::sync::atomic::Ordering::SeqCst);
    let elsewhere = listen(Router::new().fallback(elsewhere)).await;
    let away = axum::response::Redirect::temporary(&format!("http://127.0.0.1:{elsewhere}/v1/messages"));
    let port = listen(Router::new().fallback(async move || away.clone())).await;
    let world = World::start(&provider("claude", port), "runtime").await;
    let (status, answer) = world.ask(json!({ "message": "x" })).await;
    assert!(status == 502 && answer["error"].as_str().unwrap().contains("307"), "{status} {answer}");
    assert!(!asked.load(std::sync::atomic::Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_streamed_to_those_who_ask_for_it() {
    let world = World::start(&mock(), "runtime").await;
    let url = format!("http://127.0.0.1:{}/v1/chat", world.facade);
    let request = world.http.post(url).header("accept", "text/event-stream").json(&json!({ "message": "hi" }));
    let text = request.send().await.unwrap().text().await.unwrap();
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["session", "chunk", "chunk", "done"], "{text}");
    let words: String = events.iter().filter_map(|event| event["content"].as_str()).take(2).collect();
    assert_eq!(words, events[3]["content"].as_str().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_keeps_its_session() {
    let world = World::start(&mock(), "runtime").await;
    let (mut socket, _) =
        tokio_tungstenite::connect_async(format!("ws://127.0.0.1:{}/ws", world.facade)).await.unwrap();
    let mut sessions = Vec::new();
    for message in ["one", "two"] {
        socket.send(json!({ "message": message }).to_string().into()).await.unwrap();
        loop {
            let text = socket.next().await.unwrap().unwrap().into_text().unwrap();
            let event: Value = serde_json::from_str(&text).unwrap();
            match event["type"].as_str().unwrap() {
                "session" => sessions.push(event["sessionId"].clone()),
                "done" => {
                    assert!(event["content"].as_str().unwrap().ends_with(message));
                    break;
                }
                _ => {}
            }
        }
    }
    assert_eq!(sessions[0], sessions[1]);
    socket.send("nonsense".into()).await.unwrap();
    let text = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(text.contains("not a request"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn echo_and_demo_need_no_runtime() {
    let world = World::start(&mock(), "echo").await;
    assert_eq!(world.say("to be").await["content"], "to be");
    let world = World::start(&mock(), "demo").await;
    assert!(world.say("x").await["content"].as_str().unwrap().contains("demonstration"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_said_before_anything_starts() {
    let stop = CancellationToken::new;
    let missing = runtime::serve(settings(&[]), stop()).await.unwrap_err().to_string();
    assert_eq!(missing, "OMNIA_PROMPTPACK_PATH: is not set");
    let path = ("OMNIA_PROMPTPACK_PATH", "/nowhere".to_owned());
    let missing = runtime::serve(settings(std::slice::from_ref(&path)), stop()).await.unwrap_err().to_string();
    assert_eq!(missing, "OMNIA_PROVIDER_TYPE: is not set");
    let redis = [path, ("OMNIA_PROVIDER_TYPE", "mock".to_owned()), ("OMNIA_SESSION_TYPE", "redis".to_owned())];
    assert!(runtime::serve(settings(&redis), stop()).await.unwrap_err().to_string().starts_with("OMNIA_SESSION_TYPE"));
    let grpc = [("OMNIA_FACADE_TYPE", "grpc".to_owned())];
    assert!(facade::serve(settings(&grpc), stop()).await.unwrap_err().to_string().starts_with("OMNIA_FACADE_TYPE"));
}
