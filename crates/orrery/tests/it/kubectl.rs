//! The real `kubectl` against a real plane.
//!
//! A transcript in `kubectl/` is what a person would see in a terminal: `$ ` starts a command, `> ` continues
//! it, the rest is its output, `[exit N]` tells a failure. The test runs the commands and compares what comes
//! out. To record again: `ORRERY_TRANSCRIPTS=write cargo test --package orrery --test it kubectl`. `KUBECTL` names
//! another release of it: `make test-kubernetes` runs all of them once more with the newest.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;
use rstest::rstest;

use crate::plane::Plane;

/// Shell functions that transcripts may use.
const PRELUDE: &str = r#"
set -o pipefail
# lines N FILE: waits until FILE has at least N lines.
lines() { until [ -e "$2" ] && [ "$(wc -l < "$2")" -ge "$1" ]; do sleep 0.02; done; }
# forward WHAT PORT: forwards a port of this machine in the background; sets port and forwarding, its process.
forward() {
  : > forwarded
  kubectl port-forward "$1" ":$2" > forwarded 2>&1 & forwarding=$!
  lines 1 forwarded
  port=$(sed -n '1s/.*127.0.0.1:\([0-9]*\) .*/\1/p' forwarded)
}
"#;

#[rstest]
fn transcript(#[files("tests/it/kubectl/*.txt")] path: PathBuf) {
    let wanted = fs::read_to_string(&path).unwrap();
    let plane = Plane::start();
    let shell = Shell::new(&plane);
    let mut seen = String::new();
    for part in parse(&wanted) {
        match part {
            Part::Prose(line) => writeln!(seen, "{line}").unwrap(),
            Part::Command(command) => {
                let mut lines = command.lines();
                writeln!(seen, "$ {}", lines.next().unwrap()).unwrap();
                lines.for_each(|line| writeln!(seen, "> {line}").unwrap());
                seen.push_str(&shell.run(&command));
            }
        }
    }
    if std::env::var("ORRERY_TRANSCRIPTS").is_ok_and(|value| value == "write") {
        fs::write(&path, &seen).unwrap();
    } else {
        assert!(wanted == seen, "{} has changed:\n{}", path.display(), difference(&wanted, &seen));
    }
}

enum Part {
    Prose(String),
    Command(String),
}

/// Prose and commands; recorded output is dropped, as it is what we are about to see again.
fn parse(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut in_output = false;
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            parts.push(Part::Command(command.to_owned()));
            in_output = true;
        } else if let (Some(more), Some(Part::Command(command))) = (continuation(line), parts.last_mut())
            && in_output
        {
            command.push('\n');
            command.push_str(more);
        } else if line.is_empty() || line.starts_with("# ") {
            // An empty line ends the output of a command.
            in_output = false;
            parts.push(Part::Prose(line.to_owned()));
        } else {
            assert!(in_output, "prose starts with \"# \": {line}");
        }
    }
    parts
}

fn continuation(line: &str) -> Option<&str> {
    if line == ">" { Some("") } else { line.strip_prefix("> ") }
}

struct Shell {
    folder: tempfile::TempDir,
    /// Holds `kubectl` and nothing else: a file, not a function, so that a background job is the program itself.
    commands: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Shell {
    fn new(plane: &Plane) -> Self {
        let commands = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(find_kubectl(), commands.path().join("kubectl")).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), commands, kubeconfig: plane.kubeconfig() }
    }

    /// Runs a command and returns what a terminal would show, without what differs from run to run.
    fn run(&self, command: &str) -> String {
        // Nothing here takes long; a command that hangs should be named, not stop everything.
        let output = Command::new("timeout")
            .args(["--kill-after=5", "120", "bash", "-c"])
            .arg(format!("exec 2>&1\n{PRELUDE}\n{command}"))
            .current_dir(&self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", format!("{}:{}", self.commands.path().display(), std::env::var("PATH").unwrap()))
            .env("HOME", self.folder.path())
            .env("EXAMPLES", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
            .env_remove("EDITOR")
            .stdin(Stdio::null())
            .output()
            .expect("timeout and bash are needed");
        let mut shown = normalise(&String::from_utf8_lossy(&output.stdout));
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
        }
        if !output.status.success() {
            writeln!(shown, "[exit {}]", output.status.code().unwrap_or(-1)).unwrap();
        }
        shown
    }
}

/// `KUBECTL`, or the first on the `PATH`. Its absence is a failure: a skipped test proves nothing.
pub fn find_kubectl() -> PathBuf {
    if let Some(named) = std::env::var_os("KUBECTL") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("kubectl"))
        .find(|file| file.is_file())
        .expect("kubectl is not on the PATH; `make tools` installs it, or set KUBECTL")
}

/// Hides times, ages, uids, revisions, ports, tokens, and what releases of kubectl word differently.
fn normalise(text: &str) -> String {
    const RULES: &[(&str, &str)] = &[
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-NAME"),
        (r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", "TOKEN"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r#"(resourceVersion"?: ?)"\d+""#, "$1\"N\""),
        (r"(Resource Version: +)\d+", "${1}N"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        // Newer releases of kubectl say where from.
        (r"( deleted) from [a-z-]+ namespace", "$1"),
        (r"(?m)^( +(?:Host )?Port:\s+\d+/TCP) \([a-z]+\)$", "$1"),
        (
            r"(?:Error from server \(BadRequest\)|error): (container \S+ is not valid for pod \S+)( out of: .*)?",
            "error: $1",
        ),
        // Its own log, when it gives up a watch that it has just begun.
        (r"(?m)^[IW]\d{4} [\d:.]+ +\d+ reflector\.go:\d+\] .*very short watch.*\n?", ""),
        (r"(?m)( {2,}|\t)\d+(m?s|m\d*s?)$", "${1}AGE"),
        // The next column starts where the longest age ends.
        (r"( {2,})\d+(s|m\d*s?) {2,}", "${1}AGE   "),
    ];
    let mut text = text.trim_end_matches('\n').to_owned();
    if text.is_empty() {
        return text;
    }
    for &(pattern, with) in RULES {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    // An empty line would end the recorded output.
    let tidy: Vec<&str> =
        text.lines().map(str::trim_end).map(|line| if line.is_empty() { "." } else { line }).collect();
    tidy.join("\n") + "\n"
}

/// The lines that differ, with the command they belong to.
fn difference(wanted: &str, seen: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (wanted, seen) = (write("wanted", wanted), write("seen", seen));
    let output = Command::new("diff").args(["-u", "-F", "^\\$ "]).args([Path::new(&wanted), Path::new(&seen)]).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}
