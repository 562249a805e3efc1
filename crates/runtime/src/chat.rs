//! What clients and the two containers say to each other.

use std::convert::Infallible;

use axum::response::sse;
use futures::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// What the user says.
    pub message: String,
    /// The conversation that it belongs to; a new one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Values for the prompt's variables.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub variables: serde_json::Map<String, Value>,
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Event {
    /// The conversation that the answer belongs to.
    Session {
        /// Its id.
        session_id: String,
    },
    /// Some words.
    Chunk {
        /// The words.
        content: String,
    },
    /// A tool is called.
    ToolCall {
        /// Which.
        name: String,
        /// With what.
        arguments: Value,
    },
    /// A tool answered, or why not.
    ToolResult {
        /// Which.
        name: String,
        /// Whether it did.
        ok: bool,
        /// Its answer, or the reason.
        content: String,
    },
    /// The answer is complete.
    Done {
        /// All of it.
        content: String,
        /// The version of the pack that was played.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pack_version: Option<String>,
        /// Tokens.
        usage: Usage,
    },
    /// There will be no answer.
    Error {
        /// Why.
        message: String,
    },
}

/// Tokens, and what they cost in dollars where prices are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Read.
    pub input_tokens: u64,
    /// Of those, from the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Usage {
    /// Adds what a turn took. What it costs is worked out in the end.
    pub(crate) fn add(&mut self, turn: &Self) {
        self.input_tokens += turn.input_tokens;
        self.cached_tokens += turn.cached_tokens;
        self.output_tokens += turn.output_tokens;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Events as a stream that browsers and `curl` understand.
pub(crate) fn stream<S: Stream<Item = Event> + Send + 'static>(
    events: S,
) -> sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    use futures::StreamExt as _;
    let encode = |event: Event| {
        let text = serde_json::to_string(&event).expect("an event is plain data");
        Ok(sse::Event::default().data(text))
    };
    sse::Sse::new(events.map(encode)).keep_alive(sse::KeepAlive::default())
}

/// The `data:` lines of a stream of bytes.
pub(crate) fn data_lines<S, B, E>(bytes: S) -> impl Stream<Item = Result<String, String>>
where
    S: Stream<Item = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]> + Send,
    E: std::fmt::Display + Send,
{
    use futures::StreamExt as _;
    lines(bytes).filter_map(async |line| match line {
        Ok(line) => line.strip_prefix("data:").map(|data| Ok(data.trim_start().to_owned())),
        Err(error) => Some(Err(error)),
    })
}

/// The lines of a stream of bytes that are not empty. Lines longer than a mebibyte end it.
pub(crate) fn lines<S, B, E>(bytes: S) -> impl Stream<Item = Result<String, String>>
where
    S: Stream<Item = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]> + Send,
    E: std::fmt::Display + Send,
{
    use futures::StreamExt as _;
    const LONGEST: usize = 1 << 20;
    let start = (Box::pin(bytes), Vec::<u8>::new(), false);
    futures::stream::unfold(start, |(mut bytes, mut buffer, mut ended)| async move {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if !line.is_empty() {
                    return Some((Ok(line), (bytes, buffer, ended)));
                }
                continue;
            }
            if ended {
                return None;
            }
            match bytes.next().await {
                None => ended = true,
                Some(Err(error)) => return Some((Err(error.to_string()), (bytes, Vec::new(), true))),
                Some(Ok(chunk)) => buffer.extend_from_slice(chunk.as_ref()),
            }
            if ended {
                buffer.push(b'\n');
            }
            if buffer.len() > LONGEST {
                return Some((Err("a line of the answer never ends".into()), (bytes, Vec::new(), true)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_are_put_together_again() {
        let pieces = ["data: on", "e\r\n\r\n: comment\nda", "ta:two\n", "data: three"];
        let bytes = futures::stream::iter(pieces.map(Ok::<_, String>));
        let lines: Vec<_> = data_lines(bytes).collect().await;
        assert_eq!(lines, [Ok("one".into()), Ok("two".into()), Ok("three".into())]);
    }

    #[tokio::test]
    async fn a_line_without_end_ends() {
        let bytes = futures::stream::repeat_with(|| Ok::<_, String>(vec![b'x'; 65536]));
        let lines: Vec<_> = data_lines(bytes).collect().await;
        assert!(lines.len() == 1 && lines[0].is_err());
    }
}
