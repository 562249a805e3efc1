//! Words for people, on stderr; colour only where a terminal shows it.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};

const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

fn colourful() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stderr().is_terminal()
}

fn painted(colour: &str, text: &str) -> String {
    if colourful() { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
}

/// Good news.
pub fn green(text: &str) -> String {
    painted(GREEN, text)
}

/// Something to type.
pub fn bold(text: &str) -> String {
    painted(BOLD, text)
}

/// Says something. A closed stderr is no reason to stop.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says what went wrong, each cause on the same line.
pub fn error(error: &anyhow::Error) {
    say(format_args!("{} {error:#}", painted(RED, "error:")));
}
