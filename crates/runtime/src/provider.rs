//! The model: a server that speaks one of three wires, or one that needs nobody.
//!
//! A conversation is kept in the form of `OpenAI`'s chat completions, whoever the provider is; the other wires are
//! translations of it, so that a session goes on when its provider changes.

mod anthropic;
mod mock;
mod ollama;
mod openai;

use std::time::Duration;

use api::omnia::ProviderType;
use api::omnia::pack::Parameters;
use futures::stream::{BoxStream, StreamExt as _};
use reqwest::redirect::Policy;
use serde_json::{Value, json};

use crate::chat::{Usage, data_lines, lines};
use crate::{Error, Settings};

/// How long a model may think before its first word, and between two.
const PATIENCE: Duration = Duration::from_mins(5);

/// Who thinks.
#[derive(Clone, Debug)]
pub(crate) enum Provider {
    /// Nobody: it repeats what it is told, and calls a tool when it is asked to.
    Mock,
    /// A server.
    Server(Box<Server>),
}

/// A server with a model.
#[derive(Clone)]
pub(crate) struct Server {
    http: reqwest::Client,
    wire: Wire,
    url: String,
    key: Option<String>,
    model: String,
    defaults: Parameters,
    prices: Prices,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url).field("model", &self.model).finish_non_exhaustive()
    }
}

/// Dollars for a thousand tokens.
#[derive(Clone, Copy, Debug)]
struct Prices {
    input: Option<f64>,
    output: Option<f64>,
    cached: Option<f64>,
}

/// How a server is asked, and how it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// Chat completions, which `OpenAI` made common: theirs, Google's, and of everyone who is compatible.
    Completions,
    /// Anthropic's messages.
    Messages,
    /// Ollama's chat.
    Ollama,
}

/// A turn that is asked for.
struct Asked<'a> {
    messages: &'a [Value],
    tools: &'a [Value],
    /// `auto`, `required` or `none`.
    choice: &'a str,
    parameters: Parameters,
}

/// What the model says, piece by piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Words(String),
    /// A part of a call: its place, and what is known of it so far.
    Call {
        index: usize,
        id: String,
        name: String,
        arguments: String,
    },
    Usage(Usage),
}

/// What one line of an answer holds.
type Pieces = Vec<Result<Piece, String>>;

impl Provider {
    /// From the contract.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let word = settings.get("OMNIA_PROVIDER_TYPE");
        if settings.get("OMNIA_MOCK_PROVIDER") == Some("true") && word.is_none() {
            return Ok(Self::Mock);
        }
        let word = settings.require("OMNIA_PROVIDER_TYPE")?;
        let type_: ProviderType = serde_json::from_value(json!(word)).map_err(|_| Error::Setting {
            variable: "OMNIA_PROVIDER_TYPE".into(),
            problem: format!("{word:?} is not known"),
        })?;
        let model = settings.get("OMNIA_PROVIDER_MODEL");
        let type_ = if type_ == ProviderType::Auto { ProviderType::of_model(model).unwrap_or(type_) } else { type_ };
        let (wire, base, usual_model) = match type_ {
            ProviderType::Mock => return Ok(Self::Mock),
            ProviderType::OpenAi | ProviderType::Auto => {
                (Wire::Completions, "https://api.openai.com/v1", "gpt-4o-mini")
            }
            ProviderType::Claude => (Wire::Messages, "https://api.anthropic.com", "claude-sonnet-4-5"),
            // Google serves chat completions at an address of its own.
            ProviderType::Gemini => {
                (Wire::Completions, "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash")
            }
            ProviderType::Ollama => (Wire::Ollama, "http://localhost:11434", "llama3.2"),
        };
        // A key must not follow anybody elsewhere.
        let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(10)).read_timeout(PATIENCE);
        let http = http.redirect(Policy::none()).build();
        let server = Server {
            http: http.map_err(|error| Error::Client(error.to_string()))?,
            wire,
            url: wire.url(settings.get("OMNIA_PROVIDER_BASE_URL").unwrap_or(base)),
            key: type_.key_variable().and_then(|name| settings.get(name)).map(|key| key.trim().to_owned()),
            model: model.unwrap_or(usual_model).to_owned(),
            defaults: Parameters {
                temperature: settings.number("OMNIA_PROVIDER_TEMPERATURE")?,
                top_p: settings.number("OMNIA_PROVIDER_TOP_P")?,
                max_tokens: settings.number("OMNIA_PROVIDER_MAX_TOKENS")?,
                ..Parameters::default()
            },
            prices: Prices {
                input: settings.number("OMNIA_PROVIDER_INPUT_COST")?,
                output: settings.number("OMNIA_PROVIDER_OUTPUT_COST")?,
                cached: settings.number("OMNIA_PROVIDER_CACHED_COST")?,
            },
        };
        Ok(Self::Server(Box::new(server)))
    }

    /// The model's name.
    pub(crate) fn model(&self) -> Option<&str> {
        match self {
            Self::Mock => None,
            Self::Server(server) => Some(&server.model),
        }
    }

    /// What tokens cost, where prices are known. Those from the cache cost what others do, unless they have a price.
    pub(crate) fn cost(&self, usage: &Usage) -> Option<f64> {
        let Self::Server(server) = self else { return None };
        let Prices { input, output, cached } = server.prices;
        input.or(output).or(cached)?;
        #[expect(clippy::cast_precision_loss, reason = "no conversation has 2^52 tokens")]
        let price = |tokens: u64, price: Option<f64>| tokens as f64 * price.unwrap_or(0.0) / 1000.0;
        let fresh = usage.input_tokens.saturating_sub(usage.cached_tokens);
        Some(price(fresh, input) + price(usage.cached_tokens, cached.or(input)) + price(usage.output_tokens, output))
    }

    /// Asks for the next turn.
    pub(crate) async fn ask(
        &self,
        messages: &[Value],
        tools: &[Value],
        choice: &str,
        parameters: &Parameters,
    ) -> Result<BoxStream<'static, Result<Piece, String>>, String> {
        match self {
            Self::Mock => Ok(futures::stream::iter(mock::turn(messages, tools).into_iter().map(Ok)).boxed()),
            Self::Server(server) => {
                let parameters = Parameters {
                    temperature: parameters.temperature.or(server.defaults.temperature),
                    top_p: parameters.top_p.or(server.defaults.top_p),
                    max_tokens: parameters.max_tokens.or(server.defaults.max_tokens),
                    ..parameters.clone()
                };
                server.ask(&Asked { messages, tools, choice, parameters }).await
            }
        }
    }
}

impl Server {
    async fn ask(&self, asked: &Asked<'_>) -> Result<BoxStream<'static, Result<Piece, String>>, String> {
        let mut request = self.http.post(&self.url).json(&self.wire.body(&self.model, asked));
        if self.wire == Wire::Messages {
            request = request.header("anthropic-version", anthropic::VERSION);
        }
        request = match (&self.key, self.wire) {
            (Some(key), Wire::Messages) => request.header("x-api-key", key),
            (Some(key), _) => request.bearer_auth(key),
            (None, _) => request,
        };
        let response =
            request.send().await.map_err(|error| format!("the provider cannot be asked: {}", error.without_url()))?;
        let status = response.status();
        if !status.is_success() {
            let body = response.text().await.unwrap_or_default();
            let body: String = body.chars().take(500).collect();
            return Err(format!("the provider answered {status}: {body}"));
        }
        let bytes = response.bytes_stream();
        Ok(match self.wire {
            Wire::Completions => read(data_lines(bytes).boxed(), openai::Reader::default()),
            Wire::Messages => read(data_lines(bytes).boxed(), anthropic::Reader::default()),
            Wire::Ollama => read(lines(bytes).boxed(), ollama::Reader::default()),
        })
    }
}

impl Wire {
    /// Where a server is asked, of which the address is known. People write it with and without the version.
    fn url(self, base: &str) -> String {
        let base = base.trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        match self {
            Self::Completions => format!("{base}/chat/completions"),
            Self::Messages => format!("{root}/v1/messages"),
            Self::Ollama => format!("{root}/api/chat"),
        }
    }

    fn body(self, model: &str, asked: &Asked<'_>) -> Value {
        match self {
            Self::Completions => openai::body(model, asked),
            Self::Messages => anthropic::body(model, asked),
            Self::Ollama => ollama::body(model, asked),
        }
    }
}

/// Understands what a server says, line by line.
trait Reader: Send + 'static {
    fn pieces(&mut self, line: &str) -> Pieces;
    /// Whether the server has said that this was all.
    fn is_complete(&self) -> bool;
}

fn read(
    lines: BoxStream<'static, Result<String, String>>,
    reader: impl Reader,
) -> BoxStream<'static, Result<Piece, String>> {
    let read = futures::stream::unfold(Some((lines, reader)), |state| async move {
        let (mut lines, mut reader) = state?;
        match lines.next().await {
            Some(Ok(line)) => {
                let pieces = reader.pieces(&line);
                Some((pieces, Some((lines, reader))))
            }
            Some(Err(error)) => Some((vec![Err(error)], None)),
            None if reader.is_complete() => None,
            None => Some((vec![Err("the provider's answer broke off".into())], None)),
        }
    });
    read.flat_map(futures::stream::iter).boxed()
}

/// A line that is JSON, or a failure to tell.
fn parse(line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|_| "the provider said something that is not JSON".into())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Sets what is known.
fn set(body: &mut Value, fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) {
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = value;
        }
    }
}
