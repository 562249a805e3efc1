//! What the demo model plays: it writes a file, looks at it, and says what it is.

use std::time::Duration;

use model::{Conversation, Turn};
use serde_json::json;

/// Fast enough to watch, slow enough to see.
const PACE: Duration = Duration::from_millis(15);

/// The next turn.
pub fn turn(conversation: &Conversation) -> Turn {
    if !conversation.offers("write") {
        return Turn::say("A demo");
    }
    let asked = conversation.asked();
    let results = conversation.results();
    let turn = match results.len() {
        0 => {
            let content = format!(
                "Hello. This file was written by a real agent that a demo script told what to do.\nIt was asked: {}\n",
                asked.lines().next().unwrap_or_default()
            );
            Turn::call("write", json!({ "filePath": "hello.md", "content": content }))
                .saying("I am Orrery's demo model: I play a script and understand nothing. I write a file.")
        }
        1 => Turn::call("bash", json!({ "command": "cat hello.md", "description": "Show the file" })),
        _ => Turn::say(
            "The file is there. For an agent that thinks, set a provider's key, such as ANTHROPIC_API_KEY, and start again.",
        ),
    };
    Turn { pace: PACE, ..turn.costing(count(&asked), 20) }
}

/// About as many tokens as a model would count.
fn count(text: &str) -> u64 {
    text.len() as u64 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(results: usize) -> Turn {
        let mut messages = vec![json!({ "role": "user", "content": "do it" })];
        messages.extend((0..results).map(|_| json!({ "role": "tool", "content": "done" })));
        turn(&Conversation::new(json!({ "messages": messages, "tools": [{ "function": { "name": "write" } }] })))
    }

    #[test]
    fn it_says_what_it_is_and_comes_to_an_end() {
        assert!(asked(0).text.contains("demo model") && asked(0).calls[0].tool == "write");
        assert_eq!(asked(1).calls[0].tool, "bash");
        assert!(asked(2).calls.is_empty());
    }
}
