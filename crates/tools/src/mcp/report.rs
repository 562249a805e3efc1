//! What a throw-away Pod found out about a program, as lines of its log: the controller that started the Pod reads them.

use serde_json::{Value, json};

use super::read as tools;
use crate::client::Error;
use crate::{Found, Problem};

/// Begins the lines that count: the program may write others.
const MARK: &str = "orrery-tools ";
/// Longer lines are not whole in every log.
const LONGEST: usize = 4096;

/// The lines.
pub fn write(listed: Result<Vec<Value>, Error>) -> String {
    let said = match listed {
        Ok(tools) => json!({ "tools": tools }),
        Err(error) => json!({ "reason": error.reason(), "message": error.to_string() }),
    };
    let text = said.to_string();
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(LONGEST / 4).map(|piece| format!("{MARK}{}\n", piece.iter().collect::<String>()));
    pieces.chain([format!("{MARK}\n")]).collect()
}

/// The tools in the lines.
pub fn read(log: &str, endpoint: &str) -> Result<Vec<Found>, Problem> {
    let odd = |message: &str| Problem::new("InvalidAnswer", message);
    let pieces: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix(MARK)).collect();
    let Some((&"", pieces)) = pieces.split_last() else {
        return Err(odd("the Pod's log does not say what tools there are"));
    };
    let mut said: Value =
        serde_json::from_str(&pieces.concat()).map_err(|_| odd("what the Pod's log says about tools is no JSON"))?;
    if let Value::Array(listed) = said["tools"].take() {
        return tools(listed, endpoint);
    }
    let reason = Error::REASONS.iter().find(|known| said["reason"] == **known).copied();
    Err(Problem::new(reason.unwrap_or("InvalidAnswer"), said["message"].as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_written_can_be_read_between_other_lines() {
        let tool = json!({ "name": "a", "description": "ü".repeat(10_000), "inputSchema": { "type": "object" } });
        let lines = write(Ok(vec![tool]));
        assert!(lines.lines().all(|line| line.len() <= LONGEST));
        let log = format!("starting\n{}done\n", lines.replacen('\n', "\nnoise\n", 1));
        assert_eq!(read(&log, "stdio://x").expect("tools")[0].name, "a");
        let late = read(&write(Err(Error::Timeout(Duration::from_secs(1)))), "stdio://x").expect_err("a problem");
        assert_eq!(late.reason, "Timeout");
        assert_eq!(read("nothing", "stdio://x").expect_err("a problem").reason, "InvalidAnswer");
        let half = lines.lines().next().expect("a line");
        assert_eq!(read(half, "stdio://x").expect_err("a problem").reason, "InvalidAnswer");
    }
}
