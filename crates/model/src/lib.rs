//! A language model that plays a script, behind the chat completions API that `OpenAI` made common, and behind those of
//! Anthropic and Ollama.
//!
//! It thinks nothing: a [`Script`] decides each turn from the conversation so far. That is enough to make a real agent do
//! real work, in a test or for someone who has no key yet. Refuses to look like anything else: whoever configures it
//! calls it a script.

mod anthropic;
mod api;
mod conversation;
mod ollama;
pub mod opencode;

pub use api::router;
pub use conversation::{Call, Conversation, Turn, Usage};

use futures::future::BoxFuture;

/// Decides what the model says next.
pub trait Script: Send + Sync + 'static {
    /// The next turn. It may take its time: a caller that hangs up ends the wait.
    fn turn(&self, conversation: Conversation) -> BoxFuture<'static, Turn>;
}

impl<F: Fn(&Conversation) -> Turn + Send + Sync + 'static> Script for F {
    fn turn(&self, conversation: Conversation) -> BoxFuture<'static, Turn> {
        Box::pin(std::future::ready(self(&conversation)))
    }
}
