//! Chat completions, in which conversations are kept here as well.

use serde_json::{Value, json};

use super::{Asked, Piece, Pieces, parse, set, text};
use crate::chat::Usage;

pub(super) fn body(model: &str, asked: &Asked<'_>) -> Value {
    let mut body = json!({ "model": model, "messages": asked.messages, "stream": true,
        "stream_options": { "include_usage": true } });
    let parameters = &asked.parameters;
    let settings = [
        ("temperature", parameters.temperature.map(Value::from)),
        ("top_p", parameters.top_p.map(Value::from)),
        ("max_tokens", parameters.max_tokens.map(Value::from)),
        ("frequency_penalty", parameters.frequency_penalty.map(Value::from)),
        ("presence_penalty", parameters.presence_penalty.map(Value::from)),
    ];
    set(&mut body, settings);
    if !asked.tools.is_empty() {
        body["tools"] = asked.tools.into();
        body["tool_choice"] = asked.choice.into();
    }
    body
}

#[derive(Default)]
pub(super) struct Reader {
    complete: bool,
}

impl super::Reader for Reader {
    fn pieces(&mut self, line: &str) -> Pieces {
        // Not everyone says this, and those who do may have said before that they stopped.
        if line == "[DONE]" {
            self.complete = true;
            return Vec::new();
        }
        let chunk = match parse(line) {
            Ok(chunk) => chunk,
            Err(error) => return vec![Err(error)],
        };
        if let Some(message) = chunk["error"]["message"].as_str() {
            return vec![Err(format!("the provider failed: {message}"))];
        }
        let choice = &chunk["choices"][0];
        self.complete |= choice["finish_reason"].is_string();
        let mut pieces = Vec::new();
        let words = text(&choice["delta"]["content"]);
        if !words.is_empty() {
            pieces.push(Ok(Piece::Words(words)));
        }
        for (place, call) in choice["delta"]["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let index = call["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(place);
            let function = &call["function"];
            let (id, name, arguments) = (text(&call["id"]), text(&function["name"]), text(&function["arguments"]));
            pieces.push(Ok(Piece::Call { index, id, name, arguments }));
        }
        let usage = &chunk["usage"];
        if let Some(input_tokens) = usage["prompt_tokens"].as_u64() {
            let cached_tokens = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
            let output_tokens = usage["completion_tokens"].as_u64().unwrap_or(0);
            pieces.push(Ok(Piece::Usage(Usage { input_tokens, cached_tokens, output_tokens, cost: None })));
        }
        pieces
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}
