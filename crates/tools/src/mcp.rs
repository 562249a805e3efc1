//! Tools of an MCP server: listed, and called. Three messages of the protocol are all that is needed, over each of its
//! three transports (docs/adr/0040).

mod events;
mod http;
pub mod report;
mod sse;
mod stdio;

use std::time::Duration;

use api::omnia::McpTransport;
use api::omnia::tools::McpCall;
use serde_json::{Value, json};

use crate::call::Secret;
use crate::caller::Caller;
use crate::client::{Bounds, Client, Error};
use crate::found::{MOST_TOOLS, tool_name};
use crate::{Found, Problem};

pub use stdio::Program;

/// The version that we ask for, and those that we understand.
const WANTED: &str = "2025-06-18";
const UNDERSTOOD: &[&str] = &["2024-11-05", "2025-03-26", WANTED, "2025-11-25"];
/// How much of everything that a server says in one conversation is read.
const MOST_OF_A_LIST: usize = 8 << 20;
/// A server that has more pages than this has no end.
const MOST_PAGES: usize = 200;
/// JSON-RPC's word for what nobody here can do.
const NO_SUCH_METHOD: i64 = -32601;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Over streamable HTTP.
    Http {
        /// Its URL.
        url: String,
        /// Who asks.
        caller: Caller,
    },
    /// Over HTTP with server-sent events, as it was before.
    Sse {
        /// The URL of the events.
        url: String,
        /// Who asks.
        caller: Caller,
    },
    /// A program of this machine, over its standard input and output. Only for those who may run it.
    Stdio(Program),
}

impl Source {
    /// Where its tools are called.
    pub fn endpoint(&self) -> String {
        match self {
            Self::Http { url, .. } | Self::Sse { url, .. } => url.clone(),
            Self::Stdio(program) => format!("stdio://{}", program.command),
        }
    }
}

/// A conversation over one of the transports.
enum Session<'a> {
    Http(http::Session<'a>),
    Sse(sse::Session<'a>),
    Stdio(stdio::Session),
}

/// What a message is to whoever waits for an answer.
enum Heard {
    /// The answer.
    Answer(Result<Value, Error>),
    /// A question of the server; what to say to it.
    Question(Value),
    /// Something that does not matter here.
    Nothing,
}

impl Client {
    /// The tools of an MCP server.
    pub async fn mcp_tools(&self, source: &Source, patience: Duration) -> Result<Vec<Found>, Problem> {
        let listed = self.mcp_list(source, patience).await?;
        let endpoint = source.endpoint();
        let read = tokio::task::spawn_blocking(move || read(listed, &endpoint)).await;
        read.unwrap_or_else(|error| Err(Problem::new("InvalidAnswer", format!("the tools cannot be read: {error}"))))
    }

    /// What an MCP server says about its tools, in its own words.
    pub async fn mcp_list(&self, source: &Source, patience: Duration) -> Result<Vec<Value>, Error> {
        let bounds = Bounds { time: patience, bytes: MOST_OF_A_LIST };
        let asked = async {
            let mut session = self.open(source, bounds).await?;
            let listed = list(&mut session).await;
            session.close().await;
            listed
        };
        tokio::time::timeout(patience, asked).await.unwrap_or(Err(Error::Timeout(patience)))
    }

    /// Calls a tool of an MCP server.
    pub(crate) async fn mcp_call(
        &self,
        call: &McpCall,
        endpoint: &str,
        arguments: &Value,
        secret: Secret<'_>,
        bounds: Bounds,
    ) -> Result<String, Error> {
        let (url, caller) = (endpoint.to_owned(), Caller::of(&call.access, secret)?);
        let source = match call.transport {
            McpTransport::StreamableHttp => Source::Http { url, caller },
            McpTransport::Sse => Source::Sse { url, caller },
            McpTransport::Stdio => Source::Stdio(Program {
                command: call.command.clone().unwrap_or_default(),
                arguments: call.args.clone(),
                directory: call.work_dir.clone(),
                environment: call.env.clone(),
            }),
        };
        let asked = async {
            let mut session = self.open(&source, bounds).await?;
            let answer = session.ask("tools/call", json!({ "name": call.tool, "arguments": arguments })).await;
            session.close().await;
            said(&answer?)
        };
        tokio::time::timeout(bounds.time, asked).await.unwrap_or(Err(Error::Timeout(bounds.time)))
    }

    /// Begins a conversation. The caller bounds its time.
    async fn open(&self, source: &Source, bounds: Bounds) -> Result<Session<'_>, Error> {
        let mut session = match source {
            Source::Http { url, caller } => Session::Http(http::Session::new(self, url, caller.clone(), bounds.bytes)?),
            Source::Sse { url, caller } => {
                Session::Sse(sse::Session::open(self, url, caller.clone(), bounds.bytes).await?)
            }
            Source::Stdio(program) => Session::Stdio(stdio::Session::start(program, bounds.bytes)?),
        };
        let us = json!({ "name": "orrery", "version": env!("CARGO_PKG_VERSION") });
        let hello = json!({ "protocolVersion": WANTED, "capabilities": {}, "clientInfo": us });
        let welcome = session.ask("initialize", hello).await?;
        let version = welcome["protocolVersion"].as_str().unwrap_or_default();
        if !UNDERSTOOD.contains(&version) {
            return Err(Error::Odd(format!("the server speaks version {version:?} of MCP, which is not understood")));
        }
        if let Session::Http(session) = &mut session {
            session.speak(version);
        }
        session.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(session)
    }
}

impl Session<'_> {
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        match self {
            Self::Http(session) => session.ask(method, params).await,
            Self::Sse(session) => session.ask(method, params).await,
            Self::Stdio(session) => session.ask(method, params).await,
        }
    }

    async fn tell(&mut self, message: Value) -> Result<(), Error> {
        match self {
            Self::Http(session) => session.tell(message).await,
            Self::Sse(session) => session.tell(message).await,
            Self::Stdio(session) => session.tell(&message).await,
        }
    }

    /// Ends the conversation; whether the server hears it does not matter.
    async fn close(self) {
        match self {
            Self::Http(session) => session.close().await,
            Self::Sse(_) => {}
            Self::Stdio(session) => session.close().await,
        }
    }
}

/// What a message is to someone who waits for the answer to `id`.
fn hear(text: &str, id: u64) -> Result<Heard, Error> {
    let message: Value = serde_json::from_str(text)
        .map_err(|error| Error::Odd(format!("the server says something that is no JSON: {error}")))?;
    if message.get("method").is_some() {
        let Some(question) = message.get("id").filter(|id| !id.is_null()) else { return Ok(Heard::Nothing) };
        let answer = if message["method"] == "ping" {
            json!({ "jsonrpc": "2.0", "id": question, "result": {} })
        } else {
            let error = json!({ "code": NO_SUCH_METHOD, "message": "this client answers nothing" });
            json!({ "jsonrpc": "2.0", "id": question, "error": error })
        };
        return Ok(Heard::Question(answer));
    }
    if message["id"] != id {
        return Ok(Heard::Nothing);
    }
    if let Some(error) = message.get("error") {
        let words = error["message"].as_str().unwrap_or("no reason given");
        return Ok(Heard::Answer(Err(Error::Failed(format!("the server refuses: {words}")))));
    }
    match message.get("result") {
        Some(result) => Ok(Heard::Answer(Ok(result.clone()))),
        None => Err(Error::Odd("the server's answer has neither result nor error".into())),
    }
}

fn question(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

async fn list(session: &mut Session<'_>) -> Result<Vec<Value>, Error> {
    let mut tools = Vec::new();
    let mut params = json!({});
    for _ in 0..MOST_PAGES {
        let page = session.ask("tools/list", params).await?;
        let more = page["tools"].as_array();
        tools.extend(more.ok_or_else(|| Error::Odd("the server's list of tools is no list".into()))?.iter().cloned());
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(cursor) if tools.len() <= MOST_TOOLS => params = json!({ "cursor": cursor }),
            _ => return Ok(tools),
        }
    }
    Err(Error::Odd(format!("the server's list of tools has more than {MOST_PAGES} pages")))
}

/// The tools in what a server said.
pub(crate) fn read(listed: Vec<Value>, endpoint: &str) -> Result<Vec<Found>, Problem> {
    if listed.is_empty() {
        return Err(Problem::new("NoTools", "the server has no tools"));
    }
    if listed.len() > MOST_TOOLS {
        return Err(Problem::new("TooManyTools", format!("the server has more than {MOST_TOOLS} tools")));
    }
    Ok(listed.into_iter().map(|tool| found(tool, endpoint).checked()).collect())
}

fn found(tool: Value, endpoint: &str) -> Found {
    let mut tool = if tool.is_object() { tool } else { json!({}) };
    let raw = tool["name"].as_str().unwrap_or_default().to_owned();
    let words = [&tool["description"], &tool["title"], &tool["annotations"]["title"]];
    let words = words.into_iter().filter_map(Value::as_str).find(|words| !words.trim().is_empty());
    let name = tool_name(&raw);
    Found {
        description: words.unwrap_or(&raw).trim().to_owned(),
        remote_name: Some(raw.clone()),
        name,
        input_schema: tool["inputSchema"].take(),
        output_schema: Some(tool["outputSchema"].take()).filter(Value::is_object),
        endpoint: endpoint.to_owned(),
        problem: raw.is_empty().then(|| Problem::new("InvalidAnswer", "the server has a tool without a name")),
        ..Found::default()
    }
}

/// What a tool said, as text for a model.
fn said(result: &Value) -> Result<String, Error> {
    let part = |item: &Value| match item["type"].as_str() {
        Some("text") => item["text"].as_str().unwrap_or_default().to_owned(),
        Some("resource") if item["resource"]["text"].is_string() => {
            item["resource"]["text"].as_str().unwrap_or_default().to_owned()
        }
        Some("resource_link") => format!("[resource {}]", item["uri"].as_str().unwrap_or_default()),
        kind => format!(
            "[{} {}]",
            kind.unwrap_or("something"),
            item["mimeType"].as_str().or(item["resource"]["mimeType"].as_str()).unwrap_or("of an unknown type")
        ),
    };
    let parts: Vec<String> = result["content"].as_array().into_iter().flatten().map(part).collect();
    let text = match result.get("structuredContent") {
        Some(structured) if parts.is_empty() => structured.to_string(),
        _ => parts.join("\n"),
    };
    if result["isError"] == true { Err(Error::Failed(text)) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_says_becomes_text() {
        let result = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            { "type": "resource", "resource": { "uri": "x", "text": "b" } }] });
        assert_eq!(said(&result), Ok("a\n[image image/png]\nb".into()));
        assert_eq!(said(&json!({ "structuredContent": { "n": 1 } })), Ok("{\"n\":1}".into()));
        let failed = json!({ "isError": true, "content": [{ "type": "text", "text": "no" }] });
        assert_eq!(said(&failed), Err(Error::Failed("no".into())));
    }

    #[test]
    fn only_the_answer_to_the_question_is_one() {
        let heard = |message: Value| hear(&message.to_string(), 2);
        assert!(matches!(heard(json!({ "id": 2, "result": 1 })), Ok(Heard::Answer(Ok(_)))));
        assert!(matches!(heard(json!({ "id": 2, "error": { "message": "m" } })), Ok(Heard::Answer(Err(_)))));
        assert!(matches!(heard(json!({ "id": 1, "result": 1 })), Ok(Heard::Nothing)));
        assert!(matches!(heard(json!({ "method": "notifications/x" })), Ok(Heard::Nothing)));
        assert!(matches!(heard(json!({ "method": "ping", "id": 9 })), Ok(Heard::Question(_))));
        assert!(heard(json!({ "id": 2 })).is_err());
        assert!(hear("hello", 2).is_err());
    }
}
