//! A program that speaks MCP over its standard input and output, one message a line.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Heard, hear, question};
use crate::client::Error;

/// Variables that a program gets from its surroundings. Everything else there may be a secret.
const PASSED_ON: &[&str] = &["HOME", "LANG", "PATH", "TMPDIR"];

/// A program that serves tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Program {
    /// Its name or path.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs.
    pub directory: Option<String>,
    /// Its variables.
    pub environment: BTreeMap<String, String>,
}

/// A conversation: as long as the program runs.
pub(super) struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<Take<ChildStdout>>,
    most: usize,
    asked: u64,
}

impl Session {
    pub(super) fn start(program: &Program, most: usize) -> Result<Self, Error> {
        let mut command = Command::new(&program.command);
        command.args(&program.arguments).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command.envs(PASSED_ON.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
        command.envs(&program.environment);
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        let cannot = |error: std::io::Error| Error::Unreachable(format!("{} cannot be run: {error}", program.command));
        let mut child = command.spawn().map_err(cannot)?;
        let piped = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = piped else {
            return Err(Error::Unreachable("the program has no input and output".into()));
        };
        let output = BufReader::new(output.take(most as u64));
        Ok(Self { child, input, output, most, asked: 0 })
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        self.asked += 1;
        let id = self.asked;
        self.tell(&question(id, method, &params)).await?;
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).await;
            let broken = |error: std::io::Error| Error::Odd(format!("the program's output cannot be read: {error}"));
            let read = read.map_err(broken)?;
            if !line.ends_with('\n') && self.output.get_ref().limit() == 0 {
                return Err(Error::TooLarge(self.most));
            }
            if read == 0 {
                return Err(self.ended().await);
            }
            if line.trim().is_empty() {
                continue;
            }
            match hear(&line, id)? {
                Heard::Answer(answer) => return answer,
                Heard::Question(answer) => self.tell(&answer).await?,
                Heard::Nothing => {}
            }
        }
    }

    pub(super) async fn tell(&mut self, message: &Value) -> Result<(), Error> {
        let line = format!("{message}\n");
        match self.input.write_all(line.as_bytes()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ended().await),
        }
    }

    async fn ended(&mut self) -> Error {
        match self.child.wait().await {
            Ok(status) => Error::Unreachable(format!("the program ended before it had answered: {status}")),
            Err(error) => Error::Unreachable(format!("the program cannot be waited for: {error}")),
        }
    }

    /// A program whose input ends should end; one that does not is ended.
    pub(super) async fn close(mut self) {
        drop(self.input);
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
    }
}
