//! One request, from the user's words to the last of the model's: the loop of model and tools.

use api::omnia::pack::{Pack, Prompt};
use api::omnia::tools::{ToolEntry, ToolsFile};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use crate::chat::{Event, Request, Usage};
use crate::provider::Piece;
use crate::render::render;
use crate::runtime::Agent;

/// Somebody is listening, or not any more.
struct Listener(Sender<Event>);

impl Listener {
    /// Tells, unless the client is gone: then there is no reason to go on.
    async fn tell(&self, event: Event) -> Result<(), Stop> {
        self.0.send(event).await.map_err(|_| Stop::Gone)
    }
}

/// Why a request ends early.
enum Stop {
    /// The client hung up.
    Gone,
    /// It cannot be answered.
    Failed(String),
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

/// A call that the model wants made.
#[derive(Clone, Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// One turn of the model.
#[derive(Default)]
struct Turn {
    words: String,
    calls: Vec<Call>,
}

/// Answers a request, event by event.
pub(crate) async fn converse(agent: &Agent, request: Request, events: Sender<Event>) {
    let listener = Listener(events);
    match answer(agent, request, &listener).await {
        Ok(()) => agent.metrics.answered("ok"),
        Err(Stop::Gone) => agent.metrics.answered("gone"),
        Err(Stop::Failed(message)) => {
            agent.metrics.answered("error");
            tracing::warn!(message, "a request could not be answered");
            // Whether anybody hears it is not known, and no longer matters.
            let _ = listener.tell(Event::Error { message }).await;
        }
    }
}

async fn answer(agent: &Agent, request: Request, listener: &Listener) -> Result<(), Stop> {
    let pack = agent.pack.now()?;
    let name = pack.entry(agent.prompt.as_deref())?;
    let prompt = &pack.prompts[name];
    let system = render(&pack, prompt, agent.provider.model(), &request.variables)?;
    let id = request.session_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    listener.tell(Event::Session { session_id: id.clone() }).await?;

    let mut messages = vec![json!({ "role": "system", "content": system })];
    messages.extend(agent.sessions.history(&id));
    let before = messages.len();
    messages.push(json!({ "role": "user", "content": request.message }));
    let (words, usage) = rounds(agent, &pack, prompt, &mut messages, listener).await?;
    agent.sessions.remember(&id, messages.split_off(before));
    agent.metrics.used(usage.input_tokens, usage.output_tokens);
    listener.tell(Event::Done { content: words, pack_version: Some(pack.version.clone()), usage }).await
}

/// Lets the model speak and call tools until it has nothing more to call, or may not.
async fn rounds(
    agent: &Agent,
    pack: &Pack,
    prompt: &Prompt,
    messages: &mut Vec<Value>,
    listener: &Listener,
) -> Result<(String, Usage), Stop> {
    let policy = &prompt.tool_policy;
    let mut usage = Usage::default();
    let mut calls_left = policy.max_tool_calls_per_turn;
    for round in 0.. {
        let may_call = round < policy.max_rounds && calls_left > 0;
        let offered = if may_call { offer(&*agent.tools()?, pack, prompt) } else { Vec::new() };
        // Whoever must call a tool must do so once, and may then speak.
        let choice = if policy.tool_choice == "required" && round > 0 { "auto" } else { &policy.tool_choice };
        let turn = speak(agent, prompt, messages, &offered, choice, listener, &mut usage).await?;
        let mut said = json!({ "role": "assistant", "content": turn.words });
        if turn.calls.is_empty() || !may_call {
            messages.push(said);
            usage.cost = agent.provider.cost(&usage);
            return Ok((turn.words, usage));
        }
        let named = |call: &Call| json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } });
        said["tool_calls"] = turn.calls.iter().map(named).collect();
        messages.push(said);
        for call in &turn.calls {
            let result = if calls_left == 0 {
                Err(format!("no more than {} calls may be made for one request", policy.max_tool_calls_per_turn))
            } else {
                calls_left -= 1;
                run(agent, prompt, call, listener).await?
            };
            let (ok, content) = result.map_or_else(|why| (false, why), |content| (true, content));
            messages.push(json!({ "role": "tool", "tool_call_id": call.id, "content": if ok { content.clone() } else { format!("error: {content}") } }));
            listener.tell(Event::ToolResult { name: call.name.clone(), ok, content }).await?;
        }
    }
    unreachable!("the last round offers no tools, and ends")
}

/// The tools that a prompt may use now: those it names, less those it blocks, as far as they are there.
fn offer(tools: &ToolsFile, pack: &Pack, prompt: &Prompt) -> Vec<Value> {
    let usable = tools.handlers.iter().filter(|entry| may_use(prompt, &entry.tool.name));
    usable
        .map(|entry| {
            // The pack's author knows what the tool is for in this pack.
            let own = pack.tools.get(&entry.tool.name).map(|tool| tool.description.clone());
            let description = own.unwrap_or_else(|| entry.tool.description.clone());
            json!({ "type": "function", "function": { "name": entry.tool.name, "description": description, "parameters": entry.tool.input_schema } })
        })
        .collect()
}

fn may_use(prompt: &Prompt, tool: &str) -> bool {
    let policy = &prompt.tool_policy;
    let is = |name: &String| name == tool;
    policy.tool_choice != "none" && prompt.tools.iter().any(is) && !policy.blocklist.iter().any(is)
}

async fn speak(
    agent: &Agent,
    prompt: &Prompt,
    messages: &[Value],
    tools: &[Value],
    choice: &str,
    listener: &Listener,
    usage: &mut Usage,
) -> Result<Turn, Stop> {
    let special = agent.provider.model().and_then(|model| prompt.model_overrides.get(model));
    let mut parameters = prompt.parameters.clone();
    if let Some(special) = special {
        parameters.temperature = special.parameters.temperature.or(parameters.temperature);
        parameters.max_tokens = special.parameters.max_tokens.or(parameters.max_tokens);
        parameters.top_p = special.parameters.top_p.or(parameters.top_p);
    }
    let mut pieces = agent.provider.ask(messages, tools, choice, &parameters).await?;
    let mut turn = Turn::default();
    while let Some(piece) = pieces.next().await {
        match piece? {
            Piece::Words(words) => {
                turn.words.push_str(&words);
                listener.tell(Event::Chunk { content: words }).await?;
            }
            Piece::Call { index, id, name, arguments } => {
                if index > turn.calls.len() {
                    return Err(Stop::Failed("the provider left out a call".into()));
                }
                if index == turn.calls.len() {
                    turn.calls.push(Call::default());
                }
                let call = &mut turn.calls[index];
                call.id.push_str(&id);
                call.name.push_str(&name);
                call.arguments.push_str(&arguments);
            }
            Piece::Usage(turn) => usage.add(&turn),
        }
    }
    Ok(turn)
}

/// Makes one call, if it may be made now: the tools file is read again, because a policy may have changed it.
async fn run(agent: &Agent, prompt: &Prompt, call: &Call, listener: &Listener) -> Result<Result<String, String>, Stop> {
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    let arguments: Value = match serde_json::from_str(text) {
        Ok(arguments) => arguments,
        Err(error) => return Ok(Err(format!("the arguments are not JSON: {error}"))),
    };
    listener.tell(Event::ToolCall { name: call.name.clone(), arguments: arguments.clone() }).await?;
    let tools = agent.tools()?;
    let entry = tools.handlers.iter().find(|entry| entry.tool.name == call.name && may_use(prompt, &call.name));
    let Some(entry) = entry else {
        agent.metrics.called(&call.name, "denied");
        return Ok(Err(format!("the tool {} may not be called", call.name)));
    };
    audit(agent, entry);
    let secret = |variable: &str| agent.settings.get(variable).map(ToOwned::to_owned);
    let result = agent.client.call(entry, &arguments, &secret).await.map_err(|error| error.to_string());
    agent.metrics.called(&call.name, if result.is_ok() { "ok" } else { "error" });
    Ok(result)
}

/// A policy that only reports has something to report.
fn audit(agent: &Agent, entry: &ToolEntry) {
    for policy in &entry.audited_by {
        agent.metrics.called(&entry.tool.name, "audited");
        tracing::warn!(policy, tool = entry.tool.name, "a policy in permissive mode would have denied this call");
    }
}
