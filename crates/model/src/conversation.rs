//! What was said so far, and what is said next.

use std::time::Duration;

use serde_json::Value;

/// A request of the agent: everything said so far.
#[derive(Clone, Debug)]
pub struct Conversation {
    request: Value,
}

impl Conversation {
    /// Reads the body of a request.
    pub fn new(request: Value) -> Self {
        Self { request }
    }

    /// The request as it came.
    pub fn request(&self) -> &Value {
        &self.request
    }

    /// What the agent was asked to do last.
    pub fn asked(&self) -> String {
        self.messages().iter().rev().find(|message| message["role"] == "user").map(text).unwrap_or_default()
    }

    /// What tools answered since then, in order.
    pub fn results(&self) -> Vec<String> {
        let messages = self.messages();
        let last = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
        messages[last..].iter().filter(|message| message["role"] == "tool").map(text).collect()
    }

    /// Whether the agent offers a tool. An agent that wants a title or a summary offers none.
    pub fn offers(&self, tool: &str) -> bool {
        let tools = self.request["tools"].as_array();
        tools.is_some_and(|tools| tools.iter().any(|offered| offered["function"]["name"] == tool))
    }

    fn messages(&self) -> &[Value] {
        self.request["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The text of a message, which is a string or a list of parts.
fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// What the model says next: words, tools to call, or both.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Words.
    pub text: String,
    /// Tools to call.
    pub calls: Vec<Call>,
    /// What it is said to have cost.
    pub usage: Usage,
    /// Time between one word and the next.
    pub pace: Duration,
    /// The request is refused with this instead.
    pub refusal: Option<String>,
}

/// A tool to call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which.
    pub tool: String,
    /// With what.
    pub arguments: Value,
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Read, those of the cache included.
    pub input: u64,
    /// Of those, from the cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

impl Turn {
    /// Words only: the last turn of a request.
    pub fn say(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// No answer but an error, as for a key that is not valid.
    pub fn refuse(message: impl Into<String>) -> Self {
        Self { refusal: Some(message.into()), ..Self::default() }
    }

    /// One tool.
    pub fn call(tool: impl Into<String>, arguments: Value) -> Self {
        Self { calls: vec![Call { tool: tool.into(), arguments }], ..Self::default() }
    }

    /// With words before it.
    #[must_use]
    pub fn saying(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// With this usage.
    #[must_use]
    pub fn costing(self, input: u64, output: u64) -> Self {
        Self { usage: Usage { input, output, cached: 0 }, ..self }
    }
}
