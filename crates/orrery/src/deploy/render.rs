//! Plans for people: a line for each resource, and below it what changes.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use deploy::{Action, Change, Plan};

const LETTERS: usize = 100;

/// Whether standard output shows colour.
pub fn colourful() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stdout().is_terminal()
}

/// The changes of a plan, and what they come to. Resources that stay as they are have no line.
pub fn plan(plan: &Plan, colour: bool) -> String {
    let mut text = changes(plan.changes.iter().filter(|change| change.action.writes() || change.unsettled), colour);
    if plan.is_empty() {
        text.push_str("Nothing to do: everything is as it should be.\n");
    }
    let _ = writeln!(text, "{}", plan.summary());
    text
}

/// One line for each change, and the fields below it.
pub fn changes<'a>(changes: impl Iterator<Item = &'a Change>, colour: bool) -> String {
    let mut text = String::new();
    for change in changes {
        let _ = writeln!(text, "{}", painted(&change.to_string(), change.action, colour));
        let told = change.unsettled || matches!(change.action, Action::Drift);
        if told && !change.detail.is_empty() {
            let _ = writeln!(text, "    {}", change.detail);
        }
        for field in &change.fields {
            let _ = writeln!(text, "    {}", field.line(LETTERS));
        }
    }
    text
}

fn painted(line: &str, action: Action, colour: bool) -> String {
    let code = match action {
        Action::Create => "32",
        Action::Update => "33",
        Action::Delete => "31",
        Action::Drift => "35",
        Action::NoChange => "0",
    };
    if colour { format!("\x1b[{code}m{line}\x1b[0m") } else { line.to_owned() }
}

/// Data, on standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}
