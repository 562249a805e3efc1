//! The deployment's configuration: read once, with everything that is wrong told at once.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::connect::Endpoint;
use super::names::label_problem;

/// Where the token comes from when the configuration has none.
const TOKEN_VARIABLE: &str = "OMNIA_API_TOKEN";

/// JSON Schema of the configuration, for callers that show it.
pub const SCHEMA: &str = include_str!("config.schema.json");

/// What is wrong with a configuration, all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Invalid(pub Vec<String>);

/// How many Pods a runtime has, and what they ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// How many.
    pub replicas: Option<u32>,
    /// Processor time.
    pub cpu: Option<String>,
    /// Memory.
    pub memory: Option<String>,
}

/// A configuration that is fine.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// The namespace.
    pub workspace: String,
    /// Provider objects, by the name of the agent that uses them, or `default`.
    pub providers: BTreeMap<String, String>,
    /// How runtimes are made.
    pub runtime: Runtime,
    /// Labels of every object.
    pub labels: BTreeMap<String, String>,
    /// Nothing is written.
    pub dry_run: bool,
    /// The API to talk to; nothing means the kubeconfig's.
    pub endpoint: Option<Endpoint>,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Config {
    /// Without the endpoint: it has the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

impl Config {
    /// Reads a configuration; a token that it does not have is taken from the environment.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::parse_with(text, std::env::var(TOKEN_VARIABLE).ok())
    }

    fn parse_with(text: &str, environment: Option<String>) -> Result<Self, Invalid> {
        let value: Value = serde_json::from_str(if text.trim().is_empty() { "{}" } else { text })
            .map_err(|error| Invalid(vec![format!("the configuration is not JSON: {error}")]))?;
        let Value::Object(fields) = value else {
            return Err(Invalid(vec!["the configuration is not a JSON object".into()]));
        };
        let mut read = Read { fields, problems: Vec::new() };
        let workspace = read.text("workspace").unwrap_or_default();
        if workspace.is_empty() {
            read.problem("workspace", "is required: the namespace to deploy to");
        } else if !is_label(&workspace) {
            read.problem(
                "workspace",
                &format!("{workspace:?} is not a namespace: lower-case letters, digits and '-', at most 63"),
            );
        }
        let providers = read.texts("providers");
        if providers.is_empty() && read.fields.get("providers").is_none_or(Value::is_object) {
            read.problem("providers", "is required: which Provider each agent uses, or \"default\"");
        }
        for (name, provider) in &providers {
            if !is_subdomain(provider) {
                read.problem(&format!("providers.{name}"), &format!("{provider:?} is not the name of a Provider"));
            }
        }
        let labels = read.texts("labels");
        for (name, value) in &labels {
            if let Some(problem) = label_problem(name, value) {
                read.problem(&format!("labels[{name:?}]"), &problem);
            }
        }
        let runtime = read.runtime();
        let dry_run = read.flag("dry_run");
        let mut warnings = Vec::new();
        let endpoint = read.endpoint(environment, &mut warnings);
        if !providers.is_empty() && !providers.contains_key("default") {
            warnings.push("providers has no \"default\": agents that it does not name have no provider".into());
        }
        let known = ["api_endpoint", "api_token", "workspace", "providers", "runtime", "labels", "dry_run"];
        let unknown: Vec<String> = read.fields.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect();
        for name in unknown {
            read.problem(&name, &format!("is not a field; there are {}", known.join(", ")));
        }
        if !read.problems.is_empty() {
            return Err(Invalid(read.problems));
        }
        Ok(Self { workspace, providers, runtime, labels, dry_run, endpoint, warnings })
    }
}

struct Read {
    fields: Map<String, Value>,
    problems: Vec<String>,
}

impl Read {
    fn problem(&mut self, field: &str, what: &str) {
        self.problems.push(format!("{field} {what}"));
    }

    fn text(&mut self, field: &str) -> Option<String> {
        match self.fields.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.problem(field, "must be a text");
                None
            }
        }
    }

    fn texts(&mut self, field: &str) -> BTreeMap<String, String> {
        let entries = match self.fields.get(field) {
            None | Some(Value::Null) => return BTreeMap::new(),
            Some(Value::Object(entries)) => entries.clone(),
            Some(_) => {
                self.problem(field, "must be a map of texts");
                return BTreeMap::new();
            }
        };
        let mut texts = BTreeMap::new();
        for (name, value) in entries {
            match value {
                Value::String(text) => drop(texts.insert(name, text)),
                _ => self.problem(&format!("{field}.{name}"), "must be a text"),
            }
        }
        texts
    }

    fn flag(&mut self, field: &str) -> bool {
        match self.fields.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.problem(field, "must be true or false");
                false
            }
        }
    }

    fn runtime(&mut self) -> Runtime {
        let entries = match self.fields.get("runtime") {
            None | Some(Value::Null) => return Runtime::default(),
            Some(Value::Object(entries)) => entries.clone(),
            Some(_) => {
                self.problem("runtime", "must be a map");
                return Runtime::default();
            }
        };
        let mut runtime = Runtime::default();
        for (name, value) in entries {
            let field = format!("runtime.{name}");
            match (name.as_str(), &value) {
                ("replicas", value) => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
                    Some(number) if number >= 1 => runtime.replicas = Some(number),
                    _ => self.problem(&field, "must be a whole number, 1 or more"),
                },
                ("cpu", Value::String(amount)) if is_amount(amount) => runtime.cpu = Some(amount.clone()),
                ("memory", Value::String(amount)) if is_amount(amount) => runtime.memory = Some(amount.clone()),
                ("cpu", _) => self.problem(&field, "must be an amount, such as \"500m\""),
                ("memory", _) => self.problem(&field, "must be an amount, such as \"256Mi\""),
                _ => self.problem(&field, "is not a field; there are replicas, cpu, memory"),
            }
        }
        runtime
    }

    fn endpoint(&mut self, environment: Option<String>, warnings: &mut Vec<String>) -> Option<Endpoint> {
        let url = self.text("api_endpoint").filter(|url| !url.is_empty());
        let written = self.text("api_token").filter(|token| !token.is_empty());
        if written.as_ref().is_some_and(|token| token.contains("${")) {
            self.problem(
                "api_token",
                &format!("is not expanded: write the token, or set the variable {TOKEN_VARIABLE}"),
            );
        }
        let Some(url) = url else {
            if written.is_some() {
                warnings.push("api_token is not used without api_endpoint: the kubeconfig is".into());
            }
            return None;
        };
        let address = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        if address.is_none_or(|address| address.is_empty() || address.starts_with('/'))
            || url.parse::<::http::Uri>().is_err()
        {
            self.problem("api_endpoint", "must be the URL of a Kubernetes API, as in https://10.0.0.1:6443");
        }
        let Some(token) = written.or(environment.filter(|token| !token.is_empty())) else {
            self.problem("api_token", &format!("is required with api_endpoint, or the variable {TOKEN_VARIABLE}"));
            return None;
        };
        Some(Endpoint { url: url.trim_end_matches('/').to_owned(), token })
    }
}

fn is_label(text: &str) -> bool {
    is_subdomain(text) && text.len() <= 63 && !text.contains('.')
}

fn is_subdomain(text: &str) -> bool {
    !text.is_empty() && text.len() <= 253 && super::names::sanitize(text) == *text
}

/// An amount as Kubernetes writes it: `500m`, `1.5`, `256Mi`.
fn is_amount(text: &str) -> bool {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let units = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"];
    number.parse::<f64>().is_ok_and(|number| number > 0.0) && units.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: &Value) -> Result<Config, Invalid> {
        Config::parse_with(&value.to_string(), None)
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let wrong = json!({
            "workspace": "Not A Namespace", "providers": { "default": "Bad Name", "x": 1 }, "labels": { "a b": "c" },
            "runtime": { "replicas": 0, "cpu": "lots", "disk": "1Gi" }, "dry_run": "yes",
            "api_endpoint": "ftp://x", "surprise": 1,
        });
        let told = parse(&wrong).expect_err("wrong").0;
        for start in [
            "workspace \"Not",
            "providers.default ",
            "providers.x must",
            "labels[\"a b\"]",
            "runtime.replicas must",
            "runtime.cpu must",
            "runtime.disk is not",
            "dry_run must",
            "api_endpoint must",
            "api_token is required",
            "surprise is not",
        ] {
            assert!(told.iter().any(|problem| problem.starts_with(start)), "{start} is not in {told:#?}");
        }
        assert_eq!(told.len(), 11, "{told:#?}");
        assert_eq!(parse(&json!({})).expect_err("empty").0.len(), 2);
        assert!(parse(&json!([])).is_err() && Config::parse("{").is_err());
    }

    #[test]
    fn a_token_comes_from_the_configuration_or_the_environment_and_is_never_shown() {
        let base = json!({ "workspace": "shop", "providers": { "default": "p" }, "api_endpoint": "https://k:6443/" });
        let endpoint = |value: &Value, variable: Option<&str>| {
            Config::parse_with(&value.to_string(), variable.map(str::to_owned)).map(|config| config.endpoint)
        };
        let from_environment = endpoint(&base, Some("variable")).expect("fine").expect("an endpoint");
        assert_eq!((from_environment.url.as_str(), from_environment.token.as_str()), ("https://k:6443", "variable"));
        let mut written = base.clone();
        written["api_token"] = json!("written");
        assert_eq!(endpoint(&written, Some("variable")).expect("fine").expect("an endpoint").token, "written");
        let config = parse(&written).expect("fine");
        assert!(!format!("{config:?} {:?}", config.endpoint).contains("written"));
        written["api_token"] = json!("${OMNIA_API_TOKEN}");
        assert!(parse(&written).expect_err("literal").to_string().contains("is not expanded"));
        assert!(endpoint(&base, None).is_err());
    }

    #[test]
    fn the_schema_that_is_shown_names_every_field() {
        let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
        let names: Vec<&String> = schema["properties"].as_object().expect("properties").keys().collect();
        assert_eq!(names.len(), 7, "{names:?}");
        assert_eq!(schema["additionalProperties"], false);
    }
}
