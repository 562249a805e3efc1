//! The model: one that speaks `OpenAI`'s chat completions, as nearly all do, or one that needs nobody.

use std::time::Duration;

use api::omnia::ProviderType;
use api::omnia::pack::Parameters;
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};

use crate::chat::data_lines;
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

/// A server that speaks chat completions.
#[derive(Clone)]
pub(crate) struct Server {
    http: reqwest::Client,
    url: String,
    key: Option<String>,
    model: String,
    defaults: Parameters,
    prices: (Option<f64>, Option<f64>),
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url).field("model", &self.model).finish_non_exhaustive()
    }
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
    Usage {
        input: u64,
        output: u64,
    },
}

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
        // Every one of them serves chat completions, Anthropic and Google at addresses of their own for it.
        let (base, usual_model) = match type_ {
            ProviderType::Mock => return Ok(Self::Mock),
            ProviderType::OpenAi | ProviderType::Auto => ("https://api.openai.com/v1", "gpt-4o-mini"),
            ProviderType::Claude => ("https://api.anthropic.com/v1", "claude-sonnet-4-5"),
            ProviderType::Gemini => ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash"),
            ProviderType::Ollama => ("http://localhost:11434/v1", "llama3.2"),
        };
        let base = settings.get("OMNIA_PROVIDER_BASE_URL").unwrap_or(base).trim_end_matches('/');
        let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(10)).read_timeout(PATIENCE).build();
        let server = Server {
            http: http.map_err(|error| Error::Client(error.to_string()))?,
            url: format!("{base}/chat/completions"),
            key: type_.key_variable().and_then(|name| settings.get(name)).map(|key| key.trim().to_owned()),
            model: model.unwrap_or(usual_model).to_owned(),
            defaults: Parameters {
                temperature: settings.number("OMNIA_PROVIDER_TEMPERATURE")?,
                top_p: settings.number("OMNIA_PROVIDER_TOP_P")?,
                max_tokens: settings.number("OMNIA_PROVIDER_MAX_TOKENS")?,
                ..Parameters::default()
            },
            prices: (settings.number("OMNIA_PROVIDER_INPUT_COST")?, settings.number("OMNIA_PROVIDER_OUTPUT_COST")?),
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

    /// What tokens cost, where prices are known.
    pub(crate) fn cost(&self, input: u64, output: u64) -> Option<f64> {
        let Self::Server(server) = self else { return None };
        #[expect(clippy::cast_precision_loss, reason = "no conversation has 2^52 tokens")]
        let price = |tokens: u64, price: f64| tokens as f64 * price / 1000.0;
        match server.prices {
            (None, None) => None,
            (read, written) => Some(price(input, read.unwrap_or(0.0)) + price(output, written.unwrap_or(0.0))),
        }
    }

    /// Asks for the next turn.
    pub(crate) async fn ask(
        &self,
        messages: &[Value],
        tools: &[Value],
        choice: &str,
        parameters: &Parameters,
    ) -> Result<std::pin::Pin<Box<dyn Stream<Item = Result<Piece, String>> + Send>>, String> {
        match self {
            Self::Mock => Ok(Box::pin(futures::stream::iter(mock(messages, tools).into_iter().map(Ok)))),
            Self::Server(server) => Ok(Box::pin(server.ask(messages, tools, choice, parameters).await?)),
        }
    }
}

impl Server {
    async fn ask(
        &self,
        messages: &[Value],
        tools: &[Value],
        choice: &str,
        parameters: &Parameters,
    ) -> Result<impl Stream<Item = Result<Piece, String>> + Send + use<>, String> {
        let mut body = json!({ "model": self.model, "messages": messages, "stream": true,
            "stream_options": { "include_usage": true } });
        let settings = [
            ("temperature", parameters.temperature.or(self.defaults.temperature).map(|n| json!(n))),
            ("top_p", parameters.top_p.or(self.defaults.top_p).map(|n| json!(n))),
            ("max_tokens", parameters.max_tokens.or(self.defaults.max_tokens).map(|n| json!(n))),
            ("frequency_penalty", parameters.frequency_penalty.map(|n| json!(n))),
            ("presence_penalty", parameters.presence_penalty.map(|n| json!(n))),
        ];
        for (name, value) in settings {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        if !tools.is_empty() {
            body["tools"] = tools.into();
            body["tool_choice"] = choice.into();
        }
        let mut request = self.http.post(&self.url).json(&body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let response =
            request.send().await.map_err(|error| format!("the provider cannot be asked: {}", error.without_url()))?;
        let status = response.status();
        if !status.is_success() {
            let body = response.text().await.unwrap_or_default();
            let body: String = body.chars().take(500).collect();
            return Err(format!("the provider answered {status}: {body}"));
        }
        let lines = data_lines(response.bytes_stream());
        Ok(lines
            .take_while(|line| std::future::ready(line.as_deref() != Ok("[DONE]")))
            .flat_map(|line| futures::stream::iter(line.map_or_else(|error| vec![Err(error)], |line| pieces(&line)))))
    }
}

/// What one line of the stream says.
fn pieces(line: &str) -> Vec<Result<Piece, String>> {
    let Ok(chunk) = serde_json::from_str::<Value>(line) else {
        return vec![Err("the provider said something that is not JSON".into())];
    };
    if let Some(message) = chunk["error"]["message"].as_str() {
        return vec![Err(format!("the provider failed: {message}"))];
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut pieces = Vec::new();
    let delta = &chunk["choices"][0]["delta"];
    let words = text(&delta["content"]);
    if !words.is_empty() {
        pieces.push(Ok(Piece::Words(words)));
    }
    for (place, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let index = call["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(place);
        let function = &call["function"];
        let (id, name, arguments) = (text(&call["id"]), text(&function["name"]), text(&function["arguments"]));
        pieces.push(Ok(Piece::Call { index, id, name, arguments }));
    }
    if let Some(input) = chunk["usage"]["prompt_tokens"].as_u64() {
        let output = chunk["usage"]["completion_tokens"].as_u64().unwrap_or(0);
        pieces.push(Ok(Piece::Usage { input, output }));
    }
    pieces
}

/// A turn of nobody: `call NAME {…}` calls a tool, its answer is told, and everything else is repeated, after the first
/// line of what it was told to be.
fn mock(messages: &[Value], tools: &[Value]) -> Vec<Piece> {
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
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
    pieces.push(Piece::Usage { input: count(&system) + count(&said), output: 1 });
    pieces
}
