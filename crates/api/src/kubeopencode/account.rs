//! What an agent tells about a session of its own, and what of it goes into a Task's status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Session, SessionSummary, TokenUsage};

/// What is known about a Task's work when its Pod has ended. It is also what a Pod leaves as its termination message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What goes into the Task's status.
    #[serde(default)]
    pub session: Session,
    /// The error that the session ended with. The process may have said 0 all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A stable word for the error when it is not the session's, such as `ContextConflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Report {
    /// More than this is cut from a termination message.
    const LARGEST_ERROR: usize = 1500;

    /// Reads what a Pod left; other texts are none of ours.
    pub fn read(message: &str) -> Option<Self> {
        serde_json::from_str(message.trim()).ok()
    }

    /// As a termination message.
    pub fn write(&self) -> String {
        let mut short = self.clone();
        if let Some(error) = &mut short.error {
            let end = error.char_indices().map(|(at, _)| at).find(|at| *at >= Self::LARGEST_ERROR);
            error.truncate(end.unwrap_or(error.len()));
        }
        serde_json::to_string(&short).unwrap_or_default()
    }

    /// Nothing but an error that kept the agent from starting.
    pub fn refusal(reason: &str, error: String) -> Self {
        Self { error: Some(error), reason: Some(reason.to_owned()), ..Self::default() }
    }
}

/// Adds up what a session used, and finds the error it ended with.
pub fn summarise(session: &Value, messages: &[Value]) -> Report {
    let infos: Vec<&Value> = messages.iter().map(|message| message.get("info").unwrap_or(message)).collect();
    let answers: Vec<&&Value> = infos.iter().filter(|info| info["role"] == "assistant").collect();
    let tokens = |path: &str| answers.iter().filter_map(|info| info["tokens"].pointer(path)?.as_i64()).sum::<i64>();
    let cost = answers.iter().filter_map(|info| info["cost"].as_f64()).fold(0.0, |sum, cost| sum + cost);
    let text = |field: &str| session[field].as_str().map(str::to_owned);
    let changes = Changes::of_session(session).unwrap_or_else(|| Changes::of_messages(messages));
    let summary = SessionSummary {
        message_count: i32::try_from(infos.len()).ok(),
        token_usage: Some(TokenUsage {
            input: tokens("/input"),
            output: tokens("/output"),
            reasoning: tokens("/reasoning"),
            cache: tokens("/cache/read") + tokens("/cache/write"),
        }),
        cost: Some(format!("{cost:.6}")),
        files_changed: i32::try_from(changes.files).ok(),
        additions: i32::try_from(changes.additions).ok(),
        deletions: i32::try_from(changes.deletions).ok(),
    };
    let error = answers.last().and_then(|info| error_of(&info["error"]));
    let session = Session { id: text("id"), title: text("title"), summary: Some(summary) };
    Report { session, error, reason: None }
}

fn error_of(error: &Value) -> Option<String> {
    let name = error["name"].as_str()?;
    let message = error["data"]["message"].as_str().unwrap_or_default();
    Some(if message.is_empty() { name.to_owned() } else { format!("{name}: {message}") })
}

/// Files and lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changes {
    files: i64,
    additions: i64,
    deletions: i64,
}

impl Changes {
    /// The agent's own count. It needs a Git repository; without one it says zero.
    fn of_session(session: &Value) -> Option<Self> {
        let count = |field: &str| session["summary"][field].as_i64().unwrap_or(0);
        let counted = Self { files: count("files"), additions: count("additions"), deletions: count("deletions") };
        (counted != Self::default()).then_some(counted)
    }

    /// What its tools did, file by file. Of a file that was there and is written anew the lines are not known.
    fn of_messages(messages: &[Value]) -> Self {
        let mut files: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        let parts = messages.iter().filter_map(|message| message["parts"].as_array()).flatten();
        for part in parts.filter(|part| part["type"] == "tool" && part["state"]["status"] == "completed") {
            let state = &part["state"];
            let difference = &state["metadata"]["filediff"];
            let changed = match part["tool"].as_str() {
                Some("write") => {
                    let is_new = state["metadata"]["exists"] == false;
                    let lines = state["input"]["content"].as_str().map_or(0, |content| content.lines().count());
                    let lines = if is_new { i64::try_from(lines).unwrap_or(0) } else { 0 };
                    state["metadata"]["filepath"]
                        .as_str()
                        .or(state["input"]["filePath"].as_str())
                        .map(|p| (p, lines, 0))
                }
                Some("edit" | "multiedit" | "patch") => {
                    let path = difference["file"].as_str().or(state["input"]["filePath"].as_str());
                    let count = |field: &str| difference[field].as_i64().unwrap_or(0);
                    path.map(|path| (path, count("additions"), count("deletions")))
                }
                _ => None,
            };
            if let Some((path, additions, deletions)) = changed {
                let sum = files.entry(path).or_default();
                sum.0 += additions;
                sum.1 += deletions;
            }
        }
        Self {
            files: i64::try_from(files.len()).unwrap_or(0),
            additions: files.values().map(|(additions, _)| additions).sum(),
            deletions: files.values().map(|(_, deletions)| deletions).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_and_cost_are_of_the_agents_answers() {
        let session = json!({ "id": "s1", "title": "t", "summary": { "files": 2, "additions": 5, "deletions": 1 } });
        let answer = |cost: f64| {
            json!({ "info": { "role": "assistant", "cost": cost,
            "tokens": { "input": 10, "output": 3, "reasoning": 1, "cache": { "read": 4, "write": 2 } } } })
        };
        let messages = [json!({ "info": { "role": "user" } }), answer(0.25), answer(0.5)];
        let report = summarise(&session, &messages);
        let summary = report.session.summary.expect("a summary");
        assert_eq!((summary.message_count, summary.cost.as_deref()), (Some(3), Some("0.750000")));
        let tokens = summary.token_usage.expect("tokens");
        assert_eq!((tokens.input, tokens.output, tokens.reasoning, tokens.cache), (20, 6, 2, 12));
        assert_eq!((summary.files_changed, summary.additions, summary.deletions), (Some(2), Some(5), Some(1)));
        assert_eq!(report.error, None);
    }

    #[test]
    fn without_a_repository_the_tools_say_what_changed() {
        let tool = |tool: &str, state: Value| json!({ "type": "tool", "tool": tool, "state": state });
        let written = |exists: bool| {
            json!({ "status": "completed", "input": { "content": "a\nb\n" },
            "metadata": { "filepath": "/w/new", "exists": exists } })
        };
        let edited = json!({ "status": "completed", "input": { "filePath": "/w/old" },
            "metadata": { "filediff": { "file": "/w/old", "additions": 3, "deletions": 1 } } });
        let failed = json!({ "status": "error", "input": { "filePath": "/w/other" } });
        let parts =
            [tool("write", written(false)), tool("write", written(true)), tool("edit", edited), tool("edit", failed)];
        let report = summarise(&json!({ "summary": { "files": 0 } }), &[json!({ "info": {}, "parts": parts })]);
        let summary = report.session.summary.expect("a summary");
        assert_eq!((summary.files_changed, summary.additions, summary.deletions), (Some(2), Some(5), Some(1)));
    }

    #[test]
    fn the_last_answers_error_is_the_sessions() {
        let failed = json!({ "info": { "role": "assistant",
            "error": { "name": "ProviderModelNotFoundError", "data": { "message": "no such model" } } } });
        let report = summarise(&json!({ "id": "s" }), &[failed]);
        assert_eq!(report.error.as_deref(), Some("ProviderModelNotFoundError: no such model"));
    }

    #[test]
    fn a_report_fits_into_a_termination_message_and_comes_back() {
        let report = Report::refusal("ContextConflict", "ü".repeat(4000));
        let message = report.write();
        assert!(message.len() < 4096, "{}", message.len());
        assert_eq!(Report::read(&message).and_then(|read| read.reason).as_deref(), Some("ContextConflict"));
        assert_eq!(Report::read("exit status 1"), None);
    }
}
