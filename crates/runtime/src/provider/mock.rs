//! A model that is none.

use serde_json::Value;

use super::{Piece, text};
use crate::chat::Usage;

/// A turn of nobody: `call NAME {…}` calls a tool, its answer is told, and everything else is repeated, after the first
/// line of what it was told to be.
pub(super) fn turn(messages: &[Value], tools: &[Value]) -> Vec<Piece> {
    let text = |message: &Value| text(&message["content"]);
    let system = messages.first().filter(|message| message["role"] == "system").map(text).unwrap_or_default();
    let last = messages.last().cloned().unwrap_or_default();
    let said = text(&last);
    let mut pieces = Vec::new();
    if last["role"] == "tool" {
        pieces.push(Piece::Words(format!("The tool answered: {said}")));
    } else if let Some((name, arguments)) =
        said.strip_prefix("call ").map(|call| call.split_once(' ').unwrap_or((call, "{}")))
        && !tools.is_empty()
    {
        let (id, name) = ("mock-call".to_owned(), name.to_owned());
        pieces.push(Piece::Call { index: 0, id, name, arguments: arguments.to_owned() });
    } else {
        let identity = system.lines().next().unwrap_or_default();
        pieces.push(Piece::Words(format!("[{identity}] ")));
        pieces.push(Piece::Words(format!("You said: {said}")));
    }
    let count = |text: &str| u64::try_from(text.split_whitespace().count()).unwrap_or(0);
    let input_tokens = count(&system) + count(&said);
    pieces.push(Piece::Usage(Usage { input_tokens, output_tokens: 1, ..Usage::default() }));
    pieces
}
