//! Durations as Kubernetes writes them: `90s`, `2h30m`, `1.5h`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A length of time in the notation of Go, which is what Kubernetes users know.
///
/// The text is kept as written, so that reading and writing an object does not change it; the schema refuses what
/// [`Duration::seconds`] could not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(pub String);

/// A duration that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: write a number with a unit, such as 90s, 30m or 2h30m")]
pub struct Invalid(String);

impl Duration {
    /// The length as a signed duration, never negative.
    pub fn parse(&self) -> Result<jiff::SignedDuration, Invalid> {
        let invalid = || Invalid(self.0.clone());
        let mut rest = self.0.as_str();
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut nanoseconds = 0_f64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
            let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
            rest = &rest[digits..];
            let (unit, scale) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit)).ok_or_else(invalid)?;
            rest = &rest[unit.len()..];
            nanoseconds += number * scale;
        }
        jiff::SignedDuration::try_from_secs_f64(nanoseconds / 1e9).map_err(|_| invalid())
    }
}

/// Longest unit first where one begins with another (`ms` before `m`).
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 64,
            "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_writes() {
        for (text, seconds) in
            [("90s", 90.0), ("2h30m", 9000.0), ("1h0m0.5s", 3600.5), ("1.5h", 5400.0), ("250ms", 0.25)]
        {
            let parsed = Duration(text.into()).parse().map(|d| d.as_secs_f64());
            assert_eq!(parsed, Ok(seconds), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "5", "h", "-5s", "2 h", "1d", "1..5s"] {
            assert!(Duration(text.into()).parse().is_err(), "{text}");
        }
    }
}
