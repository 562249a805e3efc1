//! `agent-run`: runs the agent for a Task, and tells afterwards what became of it.
//!
//! What the Task brings is sent to the server first, where there is one. The request goes to the agent by its standard
//! input, where it can be as long as it likes. Signals are passed on. What the agent says about its session, or what kept
//! it from starting, is left as the container's termination message.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use api::kubeopencode::account::{Report, summarise};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::delivery;
use crate::env::{self, Env};

/// The agent is not asked about its session for longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Output that is still open after the agent has ended is not waited for longer.
const GRACE: Duration = Duration::from_secs(2);
/// So much of what the agent said last is remembered.
const REMEMBERED: usize = 1 << 17;

/// Why the agent could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is missing or unreadable.
    #[error(transparent)]
    Setting(#[from] env::Error),
    /// The Task's contexts did not arrive.
    #[error(transparent)]
    Delivery(#[from] delivery::SendError),
    /// No program.
    #[error("{program} cannot be run")]
    Start {
        /// Which.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// No request.
    #[error("{path} cannot be read", path = path.display())]
    Prompt {
        /// The file with the request.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Runs `words`; the answer is the exit code to end with.
pub async fn run(env: &Env, words: &[String]) -> Result<i32, Error> {
    let log = PathBuf::from(env.get_or("TERMINATION_LOG", "/dev/termination-log"));
    match work(env, words, &log).await {
        Err(error) => {
            let reason = if let Error::Delivery(error) = &error { error.reason.as_str() } else { "AgentStartError" };
            leave(&log, &Report::refusal(reason, error.to_string()));
            Err(error)
        }
        done => done,
    }
}

async fn work(env: &Env, words: &[String], log: &Path) -> Result<i32, Error> {
    let lease = match delivery::Settings::from_env(env)? {
        Some(settings) => Some(delivery::send(&settings).await?),
        None => None,
    };
    let mut child = start(env, words)?;
    let said = tokio::spawn(pass_on(child.stdout.take(), std::io::stdout()));
    let complained = tokio::spawn(pass_on(child.stderr.take(), std::io::stderr()));
    let code = code(wait(child).await.map_err(|source| failed(words, source))?);
    drop(lease);
    // What the agent started may hold its output open after it.
    let both =
        tokio::time::timeout(GRACE, async { (said.await.unwrap_or_default(), complained.await.unwrap_or_default()) });
    let (said, complained) = both.await.unwrap_or_default();
    if let Some(answer) = missing_answer(env, &said).await {
        let _ = writeln!(std::io::stdout().lock(), "{answer}");
    }
    let mut report = if env.flag("SESSION_EXPORT") { session(env, words).await } else { None };
    if code != 0 && report.as_ref().is_none_or(|report| report.error.is_none()) {
        report.get_or_insert_default().error = last_words(&complained);
    }
    if let Some(report) = report {
        leave(log, &report);
    }
    Ok(code)
}

fn start(env: &Env, words: &[String]) -> Result<Child, Error> {
    let (program, arguments) = words.split_first().ok_or(env::Error::Missing("the agent's command"))?;
    let input = match env.get("PROMPT_FILE").map(PathBuf::from) {
        Some(path) => std::fs::File::open(&path).map(Stdio::from).map_err(|source| Error::Prompt { path, source })?,
        None => Stdio::null(),
    };
    let mut command = Command::new(program);
    // Not the agent's business.
    command.args(arguments).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("CONTEXT_TOKEN");
    command.spawn().map_err(|source| failed(words, source))
}

fn failed(words: &[String], source: std::io::Error) -> Error {
    Error::Start { program: words.first().cloned().unwrap_or_default(), source }
}

/// Waits for the agent; a signal to us is one to it.
async fn wait(mut child: Child) -> std::io::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    loop {
        let received = tokio::select! {
            ended = child.wait() => return ended,
            _ = terminate.recv() => "TERM",
            _ = interrupt.recv() => "INT",
        };
        if let Some(id) = child.id() {
            // The shell's own `kill`: every image that runs this has a shell.
            let _ = Command::new("sh").args(["-c", &format!("kill -{received} {id}")]).status().await;
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Passes on what the agent says; the answer is the end of it.
async fn pass_on(output: Option<impl AsyncRead + Unpin>, mut into: impl Write) -> Vec<u8> {
    let (mut said, mut part) = (Vec::new(), vec![0; 1 << 14]);
    let Some(mut output) = output else { return said };
    while let Ok(length @ 1..) = output.read(&mut part).await {
        let _ = into.write_all(&part[..length]).and_then(|()| into.flush());
        said.extend_from_slice(&part[..length]);
        let old = said.len().saturating_sub(REMEMBERED);
        said.drain(..old);
    }
    said
}

/// The end of what the agent complained about, without colours.
fn last_words(complained: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(complained);
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            // A colour ends with a letter.
            let _ = letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(letter);
        }
    }
    let lines: Vec<&str> = plain.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let end = lines[lines.len().saturating_sub(8)..].join(" ");
    (!end.is_empty()).then_some(end)
}

/// The agent's last words, if they were not printed: one that attaches to a server often leaves before it has read them.
async fn missing_answer(env: &Env, printed: &[u8]) -> Option<String> {
    let (url, title) = (env.get("AGENT_URL")?, env.get("SESSION_TITLE")?);
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().ok()?;
    let ask = |path: String| {
        let request = client.get(format!("{url}{path}"));
        async { request.send().await.ok()?.json::<Value>().await.ok() }
    };
    let sessions = ask("/session".to_owned()).await?;
    let id = sessions.as_array()?.iter().find(|session| session["title"] == title)?["id"].as_str()?.to_owned();
    let messages = ask(format!("/session/{id}/message")).await?;
    let last = messages.as_array()?.iter().rev().find(|message| message["info"]["role"] == "assistant")?;
    let parts = last["parts"].as_array()?.iter().filter(|part| part["type"] == "text");
    let text: String = parts.filter_map(|part| part["text"].as_str()).collect();
    let text = text.trim();
    (!text.is_empty() && !String::from_utf8_lossy(printed).contains(text)).then(|| text.to_owned())
}

/// What the agent has on record about the session of this title.
async fn session(env: &Env, words: &[String]) -> Option<Report> {
    let (program, title) = (words.first()?, env.get("SESSION_TITLE")?);
    let asked = tokio::time::timeout(PATIENCE, async {
        let sessions = ask(program, &["session", "list", "--format", "json"]).await?;
        let id = sessions.as_array()?.iter().find(|session| session["title"] == title)?["id"].as_str()?.to_owned();
        let exported = ask(program, &["export", &id]).await?;
        let messages = exported["messages"].as_array().map_or(&[][..], Vec::as_slice);
        Some(summarise(&exported["info"], messages))
    });
    let report = asked.await.ok().flatten();
    if report.is_none() {
        tracing::warn!(title, "the agent does not tell about its session");
    }
    report
}

async fn ask(program: &str, words: &[&str]) -> Option<Value> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().await.ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

fn leave(log: &Path, report: &Report) {
    if let Err(error) = std::fs::write(log, report.write()) {
        tracing::warn!(path = %log.display(), %error, "the termination message cannot be written");
    }
}
