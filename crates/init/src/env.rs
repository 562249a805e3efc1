//! Settings of a verb: environment variables, read once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;

/// A setting that cannot be used. Always names the variable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable that must be there is absent or empty.
    #[error("{0} is not set")]
    Missing(&'static str),
    /// A variable holds something else than it should.
    #[error("{variable} is not {wanted}: {value:?}")]
    Unreadable {
        /// The variable.
        variable: &'static str,
        /// What it should hold.
        wanted: &'static str,
        /// What it holds.
        value: String,
    },
}

/// The environment of a verb.
#[derive(Clone, Debug, Default)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// The environment of this process. Variables that are not UTF-8 cannot be ours and are left out.
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        )
    }

    /// A value that is there and not empty.
    pub fn get(&self, variable: &str) -> Option<&str> {
        self.0.get(variable).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A value, or its default.
    pub fn get_or<'a>(&'a self, variable: &str, default: &'a str) -> &'a str {
        self.get(variable).unwrap_or(default)
    }

    /// A value that must be there.
    pub fn require(&self, variable: &'static str) -> Result<&str, Error> {
        self.get(variable).ok_or(Error::Missing(variable))
    }

    /// A path that must be there.
    pub fn require_path(&self, variable: &'static str) -> Result<PathBuf, Error> {
        self.require(variable).map(PathBuf::from)
    }

    /// `true` or `1`.
    pub fn flag(&self, variable: &str) -> bool {
        matches!(self.get(variable), Some("true" | "1"))
    }

    /// A whole number, or its default.
    pub fn number(&self, variable: &'static str, default: u32) -> Result<u32, Error> {
        self.parse(variable, "a whole number", default)
    }

    /// Seconds, written `5` or `5s`, or the default.
    pub fn seconds(&self, variable: &'static str, default: u64) -> Result<std::time::Duration, Error> {
        let Some(value) = self.get(variable) else { return Ok(std::time::Duration::from_secs(default)) };
        let digits = value.strip_suffix('s').unwrap_or(value);
        let unreadable = || Error::Unreadable { variable, wanted: "a number of seconds", value: value.to_owned() };
        digits.parse().map(std::time::Duration::from_secs).map_err(|_| unreadable())
    }

    /// Permission bits in octal, or the default.
    pub fn file_mode(&self, variable: &'static str, default: u32) -> Result<u32, Error> {
        let Some(value) = self.get(variable) else { return Ok(default) };
        let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777);
        mode.ok_or_else(|| Error::Unreadable { variable, wanted: "an octal file mode", value: value.to_owned() })
    }

    /// JSON, or its default.
    pub fn json<T: DeserializeOwned + Default>(&self, variable: &'static str) -> Result<T, Error> {
        let Some(value) = self.get(variable) else { return Ok(T::default()) };
        serde_json::from_str(value).map_err(|error| Error::Unreadable {
            variable,
            wanted: "the JSON it should be",
            value: format!("{value} ({error})"),
        })
    }

    fn parse<T: std::str::FromStr>(
        &self,
        variable: &'static str,
        wanted: &'static str,
        default: T,
    ) -> Result<T, Error> {
        let Some(value) = self.get(variable) else { return Ok(default) };
        value.parse().map_err(|_| Error::Unreadable { variable, wanted, value: value.to_owned() })
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}
