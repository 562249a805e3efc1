//! The APIs: `GET /v1/models` and `POST /v1/chat/completions`, streamed or not; those of others, streamed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};

use crate::{Conversation, Script, Turn, anthropic, ollama};

/// Serves a script.
pub fn router(script: Arc<dyn Script>) -> Router {
    let models = || async { Json(json!({ "object": "list", "data": [{ "id": "script", "object": "model" }] })) };
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(complete))
        .route("/v1/messages", post(anthropic::answer))
        .route("/api/chat", post(ollama::answer))
        // A long conversation is long.
        .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
        .with_state(script)
}

async fn complete(State(script): State<Arc<dyn Script>>, Json(request): Json<Value>) -> Response {
    let model = request["model"].clone();
    let streamed = request["stream"] == true;
    let turn = script.turn(Conversation::new(request)).await;
    if let Some(message) = &turn.refusal {
        let error = json!({ "error": { "message": message, "type": "invalid_request_error" } });
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    if streamed { stream(&turn, &model).into_response() } else { Json(whole(&turn, &model)).into_response() }
}

/// The answer in one piece.
fn whole(turn: &Turn, model: &Value) -> Value {
    let mut message = json!({ "role": "assistant", "content": turn.text });
    if !turn.calls.is_empty() {
        message["tool_calls"] = calls(turn).into();
    }
    json!({ "id": ID, "object": "chat.completion", "created": 0, "model": model, "usage": usage(turn),
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(turn) }] })
}

/// The answer word by word, as server-sent events.
fn stream(turn: &Turn, model: &Value) -> Sse<impl futures::Stream<Item = Result<Event, Infallible>> + use<>> {
    let chunk = |delta: Value, finish: Value| {
        json!({ "id": ID, "object": "chat.completion.chunk", "created": 0, "model": model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
    };
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    chunks.extend(turn.text.split_inclusive(' ').map(|word| chunk(json!({ "content": word }), Value::Null)));
    if !turn.calls.is_empty() {
        chunks.push(chunk(json!({ "tool_calls": calls(turn) }), Value::Null));
    }
    let mut last = chunk(json!({}), finish(turn).into());
    last["usage"] = usage(turn);
    chunks.push(last);
    let words = chunks.into_iter().map(|chunk| chunk.to_string()).chain(["[DONE]".to_owned()]);
    Sse::new(paced(words.collect(), turn.pace).map(|word| Ok(Event::default().data(word))))
}

/// One after the other, with time in between.
pub(crate) fn paced<T: Send + 'static>(pieces: Vec<T>, pace: Duration) -> impl Stream<Item = T> + Send + 'static {
    futures::stream::iter(pieces).then(move |piece| async move {
        if pace > Duration::ZERO {
            tokio::time::sleep(pace).await;
        }
        piece
    })
}

const ID: &str = "scripted";

fn finish(turn: &Turn) -> &'static str {
    if turn.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn calls(turn: &Turn) -> Vec<Value> {
    let calls = turn.calls.iter().enumerate();
    let shown = calls.map(|(index, call)| {
        json!({ "index": index, "id": format!("call-{index}"), "type": "function",
            "function": { "name": call.tool, "arguments": call.arguments.to_string() } })
    });
    shown.collect()
}

fn usage(turn: &Turn) -> Value {
    let usage = &turn.usage;
    json!({ "prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output, "prompt_tokens_details": { "cached_tokens": usage.cached } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_the_same_whole_and_in_pieces() {
        let turn = Turn::call("write", json!({ "a": 1 })).saying("one two").costing(7, 3);
        let whole = whole(&turn, &json!("m"));
        let message = &whole["choices"][0]["message"];
        assert_eq!(message["content"], "one two");
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"a":1}"#);
        assert_eq!(
            (&whole["usage"]["total_tokens"], &whole["choices"][0]["finish_reason"]),
            (&json!(10), &json!("tool_calls"))
        );
    }

    #[test]
    fn a_conversation_knows_what_was_asked_and_what_tools_answered() {
        let conversation = Conversation::new(json!({ "tools": [{ "function": { "name": "bash" } }], "messages": [
            { "role": "user", "content": "old" }, { "role": "tool", "content": "old result" },
            { "role": "user", "content": [{ "type": "text", "text": "new" }] },
            { "role": "assistant", "content": "" }, { "role": "tool", "content": "result" }] }));
        assert_eq!((conversation.asked(), conversation.results()), ("new".into(), vec!["result".to_owned()]));
        assert!(conversation.offers("bash") && !conversation.offers("write"));
    }
}
