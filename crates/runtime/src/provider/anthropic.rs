//! Anthropic's messages. Penalties for repetition are not known there, and not sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Asked, Piece, Pieces, parse, set, text};
use crate::chat::Usage;

/// The version of the API that is spoken here.
pub(super) const VERSION: &str = "2023-06-01";
/// The API wants to be told how much may be said.
const USUAL_TOKENS: u32 = 4096;

pub(super) fn body(model: &str, asked: &Asked<'_>) -> Value {
    let parameters = &asked.parameters;
    let system: Vec<String> = of_role(asked.messages, "system").map(|message| text(&message["content"])).collect();
    let mut body = json!({ "model": model, "messages": messages(asked.messages), "stream": true,
        "max_tokens": parameters.max_tokens.unwrap_or(USUAL_TOKENS) });
    set(
        &mut body,
        [
            ("system", Some(system.join("\n")).filter(|words| !words.is_empty()).map(Value::from)),
            ("temperature", parameters.temperature.map(Value::from)),
            ("top_p", parameters.top_p.map(Value::from)),
        ],
    );
    let called = called(asked.messages);
    if !asked.tools.is_empty() {
        let choice = if asked.choice == "required" { "any" } else { asked.choice };
        body["tools"] = asked.tools.iter().map(|tool| described(&tool["function"])).collect();
        body["tool_choice"] = json!({ "type": choice });
    } else if !called.is_empty() {
        // A conversation in which tools were called cannot be told without them, even when none may be called any more.
        let nothing = |name: &String| json!({ "name": name, "input_schema": { "type": "object" } });
        body["tools"] = called.iter().map(nothing).collect();
        body["tool_choice"] = json!({ "type": "none" });
    }
    body
}

fn of_role<'a>(messages: &'a [Value], role: &'a str) -> impl Iterator<Item = &'a Value> {
    messages.iter().filter(move |message| message["role"] == role)
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message["tool_calls"].as_array().into_iter().flatten()
}

/// The names of the tools that were called so far.
fn called(messages: &[Value]) -> BTreeSet<String> {
    messages.iter().flat_map(calls).map(|call| text(&call["function"]["name"])).collect()
}

fn described(function: &Value) -> Value {
    json!({ "name": function["name"], "description": function["description"], "input_schema": function["parameters"] })
}

/// What was said. Answers of tools are the user's words there, all those of one turn together.
fn messages(said: &[Value]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    let mut answering = false;
    for message in said {
        let words = text(&message["content"]);
        let mut blocks = Vec::new();
        let is_answer = message["role"] == "tool";
        if is_answer {
            let (id, words) = (&message["tool_call_id"], words);
            blocks.push(json!({ "type": "tool_result", "tool_use_id": id, "content": words }));
        } else if !words.is_empty() {
            blocks.push(json!({ "type": "text", "text": words }));
        }
        blocks.extend(calls(message).map(|call| {
            let function = &call["function"];
            // What the model made of it is told back as it was, where it was anything.
            let input = serde_json::from_str::<Value>(&text(&function["arguments"])).ok().filter(Value::is_object);
            json!({ "type": "tool_use", "id": call["id"], "name": function["name"], "input": input.unwrap_or(json!({})) })
        }));
        let role = match message["role"].as_str() {
            Some("assistant") => "assistant",
            Some("system") => continue,
            _ => "user",
        };
        match messages.last_mut().and_then(|last| last["content"].as_array_mut()).filter(|_| is_answer && answering) {
            Some(last) => last.append(&mut blocks),
            None if blocks.is_empty() => {}
            None => messages.push(json!({ "role": role, "content": blocks })),
        }
        answering = is_answer;
    }
    messages
}

#[derive(Default)]
pub(super) struct Reader {
    /// Which call a block is.
    calls: BTreeMap<u64, usize>,
    /// The tokens written are counted from the beginning each time they are told.
    written: u64,
    complete: bool,
}

impl super::Reader for Reader {
    fn pieces(&mut self, line: &str) -> Pieces {
        let event = match parse(line) {
            Ok(event) => event,
            Err(error) => return vec![Err(error)],
        };
        let block = event["index"].as_u64().unwrap_or(0);
        let piece = match event["type"].as_str() {
            Some("error") => return vec![Err(format!("the provider failed: {}", text(&event["error"]["message"])))],
            Some("message_start") => {
                let usage = &event["message"]["usage"];
                let count = |name: &str| usage[name].as_u64().unwrap_or(0);
                let cached_tokens = count("cache_read_input_tokens");
                // Here the two do not count as input.
                let input_tokens = count("input_tokens") + count("cache_creation_input_tokens") + cached_tokens;
                Some(Piece::Usage(Usage { input_tokens, cached_tokens, ..Usage::default() }))
            }
            Some("content_block_start") if event["content_block"]["type"] == "tool_use" => {
                let index = self.calls.len();
                self.calls.insert(block, index);
                let (id, name) = (text(&event["content_block"]["id"]), text(&event["content_block"]["name"]));
                Some(Piece::Call { index, id, name, arguments: String::new() })
            }
            Some("content_block_delta") => self.delta(block, &event["delta"]),
            Some("message_delta") => {
                let written = event["usage"]["output_tokens"].as_u64().unwrap_or(self.written);
                let output_tokens = written.saturating_sub(std::mem::replace(&mut self.written, written));
                Some(Piece::Usage(Usage { output_tokens, ..Usage::default() }))
            }
            Some("message_stop") => {
                self.complete = true;
                None
            }
            // Pings, ends of blocks, and what is not known yet: the API asks to let it pass.
            _ => None,
        };
        piece.into_iter().map(Ok).collect()
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Reader {
    fn delta(&self, block: u64, delta: &Value) -> Option<Piece> {
        match delta["type"].as_str()? {
            "text_delta" => Some(Piece::Words(text(&delta["text"]))),
            "input_json_delta" => {
                let (index, arguments) = (*self.calls.get(&block)?, text(&delta["partial_json"]));
                Some(Piece::Call { index, id: String::new(), name: String::new(), arguments })
            }
            // Thoughts are not for the user.
            _ => None,
        }
    }
}
