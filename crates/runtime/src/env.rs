//! The contract: `OMNIA_*` variables, read once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// The variables of a container.
#[derive(Clone, Debug, Default)]
pub struct Settings(BTreeMap<String, String>);

impl FromIterator<(String, String)> for Settings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl Settings {
    /// Those of this process.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// A value that is there and not empty.
    pub(crate) fn get(&self, variable: &str) -> Option<&str> {
        self.0.get(variable).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A value that must be there.
    pub(crate) fn require(&self, variable: &str) -> Result<&str, Error> {
        self.get(variable).ok_or_else(|| Error::Setting { variable: variable.into(), problem: "is not set".into() })
    }

    /// A number, if it is there.
    pub(crate) fn number<T: std::str::FromStr>(&self, variable: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.get(variable) else { return Ok(None) };
        let problem = || Error::Setting { variable: variable.into(), problem: format!("{text:?} is no number") };
        text.parse().map(Some).map_err(|_| problem())
    }

    /// A port.
    pub(crate) fn port(&self, variable: &str, usual: u16) -> Result<u16, Error> {
        Ok(self.number(variable)?.unwrap_or(usual))
    }

    /// A file that must be named.
    pub(crate) fn path(&self, variable: &str) -> Result<PathBuf, Error> {
        self.require(variable).map(PathBuf::from)
    }

    /// A duration as Kubernetes writes it.
    pub(crate) fn duration(&self, variable: &str, usual: Duration) -> Result<Duration, Error> {
        let Some(text) = self.get(variable) else { return Ok(usual) };
        let problem = |problem: String| Error::Setting { variable: variable.into(), problem };
        let parsed = api::duration::Duration(text.to_owned()).parse().map_err(|error| problem(error.to_string()))?;
        Duration::try_from(parsed).map_err(|_| problem("is negative".into()))
    }
}
