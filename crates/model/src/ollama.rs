//! Ollama's chat: `POST /api/chat`. Stricter than Ollama itself, which lets pass what it does not know.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::paced;
use crate::{Conversation, Script, Turn};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: String,
    messages: Vec<Message>,
    stream: bool,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    options: Options,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    temperature: Option<f64>,
    top_p: Option<f64>,
    num_predict: Option<i64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: String,
    #[serde(default)]
    tool_calls: Vec<Called>,
    tool_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Called {
    function: Function,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    arguments: Map<String, Value>,
}

pub(crate) async fn answer(State(script): State<Arc<dyn Script>>, body: Json<Value>) -> Response {
    let request = serde_json::from_value::<Request>(body.0).map_err(|error| error.to_string());
    let request = match request.and_then(|request| check(&request).map(|()| request)) {
        Ok(request) => request,
        Err(error) => return refuse(&error),
    };
    let turn = script.turn(Conversation::new(conversation(&request))).await;
    if let Some(message) = &turn.refusal {
        return refuse(message);
    }
    let lines = lines(&turn, &request.model).into_iter().map(|line| format!("{line}\n")).collect();
    let body = Body::from_stream(paced(lines, turn.pace).map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

fn refuse(message: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": message }))).into_response()
}

/// What the shape of a request does not say.
fn check(request: &Request) -> Result<(), String> {
    if !request.stream {
        return Err("stream: a script only streams".into());
    }
    let roles = ["system", "user", "assistant", "tool"];
    if let Some(message) = request.messages.iter().find(|message| !roles.contains(&message.role.as_str())) {
        return Err(format!("invalid role: {:?}", message.role));
    }
    let unnamed = |message: &Message| (message.role == "tool") != message.tool_name.is_some();
    if request.messages.iter().any(unnamed) {
        return Err("tool_name: a message of a tool, and no other, says which tool it was".into());
    }
    Ok(())
}

/// The same as a chat completion would say it, so that scripts need to know only one.
fn conversation(request: &Request) -> Value {
    let messages: Vec<Value> = request.messages.iter().map(message).collect();
    let options = &request.options;
    json!({ "model": request.model, "messages": messages, "tools": request.tools,
        "temperature": options.temperature, "top_p": options.top_p, "max_tokens": options.num_predict,
        "frequency_penalty": options.frequency_penalty, "presence_penalty": options.presence_penalty })
}

fn message(message: &Message) -> Value {
    let mut said = json!({ "role": message.role, "content": message.content });
    if !message.tool_calls.is_empty() {
        let called = |call: &Called| {
            let arguments = json!(call.function.arguments).to_string();
            json!({ "function": { "name": call.function.name, "arguments": arguments } })
        };
        said["tool_calls"] = message.tool_calls.iter().map(called).collect();
    }
    if let Some(name) = &message.tool_name {
        said["name"] = name.as_str().into();
    }
    said
}

fn lines(turn: &Turn, model: &str) -> Vec<Value> {
    let line = |message: Value, done: bool| json!({ "model": model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done });
    let words = turn.text.split_inclusive(' ').map(|word| json!({ "role": "assistant", "content": word }));
    let mut lines: Vec<Value> = words.map(|message| line(message, false)).collect();
    for call in &turn.calls {
        let function = json!({ "name": call.tool, "arguments": call.arguments });
        let message = json!({ "role": "assistant", "content": "", "tool_calls": [{ "function": function }] });
        lines.push(line(message, false));
    }
    let mut last = line(json!({ "role": "assistant", "content": "" }), true);
    last["done_reason"] = "stop".into();
    (last["prompt_eval_count"], last["eval_count"]) = (turn.usage.input.into(), turn.usage.output.into());
    lines.push(last);
    lines
}
