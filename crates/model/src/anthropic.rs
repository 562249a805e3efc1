//! Anthropic's messages: `POST /v1/messages`. As strict as the API is, so that a client that is not can be seen.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::paced;
use crate::{Conversation, Script, Turn};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: String,
    max_tokens: u32,
    messages: Vec<Message>,
    stream: bool,
    system: Option<String>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    #[serde(default)]
    tools: Vec<Tool>,
    tool_choice: Option<Choice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: Role,
    content: Vec<Block>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Block {
    Text { text: String },
    ToolUse { id: String, name: String, input: serde_json::Map<String, Value> },
    ToolResult { tool_use_id: String, content: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    #[serde(default)]
    description: String,
    input_schema: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Choice {
    Auto,
    Any,
    None,
}

pub(crate) async fn answer(State(script): State<Arc<dyn Script>>, headers: HeaderMap, body: Json<Value>) -> Response {
    let told = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    if told("x-api-key").is_empty() {
        return refuse(StatusCode::UNAUTHORIZED, "authentication_error", "x-api-key header is required");
    }
    if told("anthropic-version") != "2023-06-01" {
        return refuse(StatusCode::BAD_REQUEST, INVALID, "anthropic-version: header is required");
    }
    let request: Request = match serde_json::from_value(body.0) {
        Ok(request) => request,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, INVALID, &error.to_string()),
    };
    if let Err(error) = check(&request) {
        return refuse(StatusCode::BAD_REQUEST, INVALID, &error);
    }
    let turn = script.turn(Conversation::new(conversation(&request))).await;
    if let Some(message) = &turn.refusal {
        return refuse(StatusCode::BAD_REQUEST, INVALID, message);
    }
    let events = events(&turn, &request.model).into_iter().map(|event| {
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        Event::default().event(name).data(event.to_string())
    });
    Sse::new(paced(events.collect(), turn.pace).map(Ok::<_, Infallible>)).into_response()
}

const INVALID: &str = "invalid_request_error";

fn refuse(code: StatusCode, type_: &str, message: &str) -> Response {
    (code, Json(json!({ "type": "error", "error": { "type": type_, "message": message } }))).into_response()
}

/// What the shape of a request does not say.
fn check(request: &Request) -> Result<(), String> {
    if !request.stream {
        return Err("stream: a script only streams".into());
    }
    if request.messages.first().is_none_or(|message| message.role != Role::User) {
        return Err("messages: the first message must be the user's".into());
    }
    if request.tool_choice.is_some() && request.tools.is_empty() {
        return Err("tool_choice: there are no tools to choose from".into());
    }
    if request.tools.iter().any(|tool| tool.input_schema.get("type") != Some(&json!("object"))) {
        return Err("tools.input_schema.type: must be object".into());
    }
    let mut called: BTreeSet<&str> = BTreeSet::new();
    for message in &request.messages {
        let mut calls = BTreeSet::new();
        for block in &message.content {
            match (message.role, block) {
                (_, Block::Text { text }) if text.is_empty() => {
                    return Err("messages: text content blocks must be non-empty".into());
                }
                (Role::Assistant, Block::ToolUse { id, .. }) => drop(calls.insert(id.as_str())),
                (Role::User, Block::ToolResult { tool_use_id, .. }) if called.remove(tool_use_id.as_str()) => {}
                (_, Block::Text { .. }) => {}
                _ => return Err("messages: tool_use is the assistant's, and each has one tool_result after it".into()),
            }
            if !matches!(block, Block::Text { .. }) && request.tools.is_empty() {
                return Err("tools: must be defined when tool_use or tool_result blocks are there".into());
            }
        }
        if message.content.is_empty() || !called.is_empty() {
            return Err("messages: a tool_use without a tool_result in the next message, or nothing at all".into());
        }
        called = calls;
    }
    if called.is_empty() { Ok(()) } else { Err("messages: a tool_use without a tool_result".into()) }
}

/// The same as a chat completion would say it, so that scripts need to know only one.
fn conversation(request: &Request) -> Value {
    let mut messages: Vec<Value> =
        request.system.iter().map(|text| json!({ "role": "system", "content": text })).collect();
    for message in &request.messages {
        let (mut words, mut calls) = (String::new(), Vec::new());
        for block in &message.content {
            match block {
                Block::Text { text } => words.push_str(text),
                Block::ToolUse { id, name, input } => {
                    let arguments = json!(input).to_string();
                    calls.push(json!({ "id": id, "function": { "name": name, "arguments": arguments } }));
                }
                Block::ToolResult { tool_use_id, content } => {
                    messages.push(json!({ "role": "tool", "tool_call_id": tool_use_id, "content": content }));
                }
            }
        }
        let role = if message.role == Role::User { "user" } else { "assistant" };
        if !words.is_empty() || !calls.is_empty() {
            let mut said = json!({ "role": role, "content": words });
            if !calls.is_empty() {
                said["tool_calls"] = calls.into();
            }
            messages.push(said);
        }
    }
    // Tools that may not be chosen are not offered.
    let (choice, tools) = match request.tool_choice {
        Some(Choice::None) => ("none", &[][..]),
        Some(Choice::Any) => ("required", &request.tools[..]),
        Some(Choice::Auto) | None => ("auto", &request.tools[..]),
    };
    let shown = |tool: &Tool| {
        json!({ "type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.input_schema } })
    };
    let tools: Vec<Value> = tools.iter().map(shown).collect();
    json!({ "model": request.model, "messages": messages, "tools": tools, "tool_choice": choice,
        "max_tokens": request.max_tokens, "temperature": request.temperature, "top_p": request.top_p })
}

fn events(turn: &Turn, model: &str) -> Vec<Value> {
    let usage = &turn.usage;
    let read = json!({ "input_tokens": usage.input - usage.cached, "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0, "output_tokens": 1 });
    let mut events = vec![
        json!({ "type": "message_start", "message": { "id": "msg_script", "type": "message", "role": "assistant",
            "model": model, "content": [], "stop_reason": null, "stop_sequence": null, "usage": read } }),
        json!({ "type": "ping" }),
    ];
    let mut blocks = Vec::new();
    if !turn.text.is_empty() {
        let words = turn.text.split_inclusive(' ').map(|word| json!({ "type": "text_delta", "text": word }));
        blocks.push((json!({ "type": "text", "text": "" }), words.collect::<Vec<_>>()));
    }
    for (number, call) in turn.calls.iter().enumerate() {
        let start = json!({ "type": "tool_use", "id": format!("toolu_{number}"), "name": call.tool, "input": {} });
        let arguments = call.arguments.to_string();
        let (first, rest) = arguments.split_at(arguments.len() / 2);
        let pieces = ["", first, rest].map(|part| json!({ "type": "input_json_delta", "partial_json": part }));
        blocks.push((start, pieces.to_vec()));
    }
    for (index, (start, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        let delta = |delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let reason = if turn.calls.is_empty() { "end_turn" } else { "tool_use" };
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
        "usage": { "output_tokens": usage.output } }));
    events.push(json!({ "type": "message_stop" }));
    events
}
