//! `orrery reference`: the page docs/reference/cli.md, made from the arguments so that it cannot be wrong.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

/// Prints the page.
pub fn run() -> anyhow::Result<()> {
    let mut command = crate::Arguments::command();
    command.build();
    let mut page = String::from("# Commands\n\nMade by `orrery reference`; do not edit.\n");
    describe(&command, &mut page)?;
    std::io::stdout().lock().write_all(page.as_bytes())?;
    Ok(())
}

fn describe(command: &Command, page: &mut String) -> std::fmt::Result {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    writeln!(page, "\n## {name}\n\n{}\n", sentence(&about))?;
    let usage = command.clone().render_usage().to_string();
    writeln!(page, "```\n{}\n```", usage.trim_start_matches("Usage:").trim())?;
    arguments(command, page)?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        describe(below, page)?;
    }
    Ok(())
}

fn arguments(command: &Command, page: &mut String) -> std::fmt::Result {
    // Options for every command are told once, at the top.
    let top = command.get_name() == "orrery";
    let shown = |argument: &&Arg| {
        let own = !matches!(
            argument.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        own && !argument.is_hide_set() && (top || !argument.is_global_set())
    };
    let mut list = command.get_arguments().filter(shown).peekable();
    if list.peek().is_none() {
        return Ok(());
    }
    writeln!(page, "\n| Argument | Default | Meaning |\n|---|---|---|")?;
    for argument in list {
        let help =
            argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let environment = argument
            .get_env()
            .map(|variable| format!(" Environment: `{}`.", variable.to_string_lossy()))
            .unwrap_or_default();
        let default = if defaults.is_empty() || !argument.get_action().takes_values() {
            String::new()
        } else {
            format!("`{}`", defaults.join(" "))
        };
        writeln!(page, "| `{}` | {default} | {}{environment} |", spelled(argument), sentence(&help))?;
    }
    Ok(())
}

fn spelled(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .filter(|_| argument.get_action().takes_values())
        .map(|names| format!(" {}", names.join(" ")))
        .unwrap_or_default();
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, None) => value.trim_start().to_owned(),
    }
}

/// Help ends without a full stop; a page has sentences, on one line, safe inside a table.
fn sentence(help: &str) -> String {
    let text = help.trim_end_matches('.').replace('\n', " ").replace('|', "\\|");
    format!("{text}.")
}
