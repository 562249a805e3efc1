//! Ollama's chat: a line of JSON for each piece, and calls that come whole.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Asked, Piece, Pieces, parse, set, text};
use crate::chat::Usage;

pub(super) fn body(model: &str, asked: &Asked<'_>) -> Value {
    let mut body = json!({ "model": model, "messages": messages(asked.messages), "stream": true });
    let parameters = &asked.parameters;
    let mut options = json!({});
    let known = [
        ("temperature", parameters.temperature.map(Value::from)),
        ("top_p", parameters.top_p.map(Value::from)),
        ("num_predict", parameters.max_tokens.map(Value::from)),
        ("frequency_penalty", parameters.frequency_penalty.map(Value::from)),
        ("presence_penalty", parameters.presence_penalty.map(Value::from)),
    ];
    set(&mut options, known);
    if options != json!({}) {
        body["options"] = options;
    }
    if asked.choice == "required" {
        tracing::warn!("Ollama lets its models choose: tool_choice \"required\" is not in force");
    }
    if !asked.tools.is_empty() && asked.choice != "none" {
        body["tools"] = asked.tools.into();
    }
    body
}

/// What was said: arguments are values there, and an answer says which tool gave it.
fn messages(said: &[Value]) -> Vec<Value> {
    let mut names = HashMap::new();
    let mut messages = Vec::new();
    for message in said {
        let mut told = json!({ "role": message["role"], "content": text(&message["content"]) });
        let mut calls = Vec::new();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = serde_json::from_str::<Value>(&text(&function["arguments"])).ok().filter(Value::is_object);
            names.insert(text(&call["id"]), function["name"].clone());
            let arguments = arguments.unwrap_or(json!({}));
            calls.push(json!({ "function": { "name": function["name"], "arguments": arguments } }));
        }
        if !calls.is_empty() {
            told["tool_calls"] = calls.into();
        }
        if message["role"] == "tool" {
            set(&mut told, [("tool_name", names.get(&text(&message["tool_call_id"])).cloned())]);
        }
        messages.push(told);
    }
    messages
}

#[derive(Default)]
pub(super) struct Reader {
    calls: usize,
    complete: bool,
}

impl super::Reader for Reader {
    fn pieces(&mut self, line: &str) -> Pieces {
        let chunk = match parse(line) {
            Ok(chunk) => chunk,
            Err(error) => return vec![Err(error)],
        };
        if let Some(message) = chunk["error"].as_str() {
            return vec![Err(format!("the provider failed: {message}"))];
        }
        let mut pieces = Vec::new();
        let words = text(&chunk["message"]["content"]);
        if !words.is_empty() {
            pieces.push(Ok(Piece::Words(words)));
        }
        for call in chunk["message"]["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            // It gives calls no names of their own.
            let id = format!("call-{}", uuid::Uuid::new_v4());
            let (index, name, arguments) = (self.calls, text(&function["name"]), function["arguments"].to_string());
            pieces.push(Ok(Piece::Call { index, id, name, arguments }));
            self.calls += 1;
        }
        if chunk["done"] == true {
            self.complete = true;
            let count = |name: &str| chunk[name].as_u64().unwrap_or(0);
            let (input_tokens, output_tokens) = (count("prompt_eval_count"), count("eval_count"));
            pieces.push(Ok(Piece::Usage(Usage { input_tokens, output_tokens, ..Usage::default() })));
        }
        pieces
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}
