//! `pack.json`: a pack of prompts, as `PromptPack` (promptpack.org) defines it. Checked against a schema that is part of
//! this program: what a pack names under `$schema` is never fetched.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde::Deserialize;
use serde_json::Value;

/// Problems that are told at once; a pack that is something else entirely would have hundreds.
const MOST_PROBLEMS: usize = 20;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("pack/schema.json")).expect("the embedded schema is JSON");
    jsonschema::validator_for(&schema).expect("the embedded schema is one")
});

/// A pack, as far as something is done with it here; what is not read was checked all the same.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Pack {
    /// Identifier.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// How templates are written.
    pub template_engine: TemplateEngine,
    /// The prompts, by name.
    pub prompts: BTreeMap<String, Prompt>,
    /// Pieces of text that templates share.
    #[serde(default)]
    pub fragments: BTreeMap<String, String>,
    /// Tools that prompts may name.
    #[serde(default)]
    pub tools: BTreeMap<String, PackTool>,
    /// Which prompts are agents.
    pub agents: Option<Agents>,
}

/// How templates are written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TemplateEngine {
    /// Version of the engine.
    pub version: String,
    /// What a variable looks like, e.g. `{{variable}}`.
    pub syntax: String,
}

/// One prompt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Prompt {
    /// Identifier.
    pub id: String,
    /// The text that the model is told first, before variables are filled in.
    pub system_template: String,
    /// Its variables.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// Names of tools that it may use.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How tools may be used.
    #[serde(default)]
    pub tool_policy: ToolPolicy,
    /// How the model is asked.
    #[serde(default)]
    pub parameters: Parameters,
    /// What is different for certain models.
    #[serde(default)]
    pub model_overrides: BTreeMap<String, ModelOverride>,
}

/// What is different for a model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModelOverride {
    /// Before the template.
    pub system_template_prefix: Option<String>,
    /// After it.
    pub system_template_suffix: Option<String>,
    /// Instead of it.
    pub system_template: Option<String>,
    /// How this model is asked.
    pub parameters: Parameters,
}

/// A variable of a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Whether it must be given.
    pub required: bool,
    /// Its value when it is not.
    pub default: Option<Value>,
}

/// How tools may be used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ToolPolicy {
    /// `auto`, `required` or `none`.
    pub tool_choice: String,
    /// How many times the model may look at results and go on.
    pub max_rounds: u32,
    /// How many calls it may make for one request.
    pub max_tool_calls_per_turn: u32,
    /// Tools that it may not use, although it names them.
    pub blocklist: Vec<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self { tool_choice: "auto".into(), max_rounds: 5, max_tool_calls_per_turn: 10, blocklist: Vec::new() }
    }
}

/// How the model is asked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Parameters {
    /// How freely it answers.
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    pub max_tokens: Option<u32>,
    /// The share of likely words it chooses from.
    pub top_p: Option<f64>,
    /// Against repeating words.
    pub frequency_penalty: Option<f64>,
    /// Against staying with a subject.
    pub presence_penalty: Option<f64>,
}

/// A tool that a pack declares.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PackTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of what it takes.
    pub parameters: Option<Value>,
}

/// Which prompts are agents.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Agents {
    /// The one that is asked first.
    pub entry: String,
    /// All of them, by the name of their prompt.
    pub members: BTreeMap<String, Member>,
}

/// A prompt that is an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Member {
    /// What it is for.
    pub description: Option<String>,
}

/// Something wrong with a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as a JSON pointer; empty for the whole.
    pub path: String,
    /// What.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

/// What is wrong with a pack, all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid(pub Vec<Problem>);

impl Pack {
    /// Reads a pack and checks it.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let one = |path: &str, message: String| Invalid(vec![Problem { path: path.into(), message }]);
        let value: Value = serde_json::from_str(text).map_err(|error| one("", format!("is not JSON: {error}")))?;
        let problems: Vec<Problem> = SCHEMA
            .iter_errors(&value)
            .take(MOST_PROBLEMS)
            .map(|error| Problem { path: error.instance_path().to_string(), message: short(&error.to_string()) })
            .collect();
        if !problems.is_empty() {
            return Err(Invalid(problems));
        }
        let pack: Self = serde_json::from_value(value).map_err(|error| one("", error.to_string()))?;
        let problems = pack.dangling();
        if problems.is_empty() { Ok(pack) } else { Err(Invalid(problems)) }
    }

    /// What the schema cannot say: names that name nothing.
    fn dangling(&self) -> Vec<Problem> {
        let Some(agents) = &self.agents else { return Vec::new() };
        let members = agents.members.keys().map(|name| (format!("/agents/members/{name}"), name));
        std::iter::once(("/agents/entry".to_owned(), &agents.entry))
            .chain(members)
            .filter(|(_, name)| !self.prompts.contains_key(*name))
            .map(|(path, name)| Problem { path, message: format!("no prompt is called {name:?}") })
            .collect()
    }

    /// The prompt to play: the one that is asked for, or the pack's entry, or `default`, or the only one.
    pub fn entry<'a>(&'a self, asked: Option<&'a str>) -> Result<&'a str, String> {
        let names = || self.prompts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        if let Some(name) = asked {
            return match self.prompts.get_key_value(name) {
                Some((name, _)) => Ok(name),
                None => Err(format!("no prompt is called {name:?}; there are: {}", names())),
            };
        }
        if let Some(agents) = &self.agents {
            return Ok(&agents.entry);
        }
        if let Some((name, _)) = self.prompts.get_key_value("default") {
            return Ok(name);
        }
        let mut keys = self.prompts.keys();
        match (keys.next(), keys.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(format!("which of the prompts is meant cannot be said: name one of {}", names())),
        }
    }
}

/// Values are quoted whole by the validator, and a template may be long.
fn short(message: &str) -> String {
    const MOST: usize = 300;
    match message.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pack() -> Value {
        json!({
            "id": "support", "name": "Support", "version": "1.2.0",
            "template_engine": { "version": "v1", "syntax": "{{variable}}" },
            "prompts": {
                "help": {
                    "id": "help", "name": "Help", "version": "v1.0.0-beta.1+b.2", "system_template": "Be kind to {{who}}.",
                    "variables": [{ "name": "who", "type": "string", "required": false, "default": "all" }],
                    "tools": ["Lookup_Order"],
                    "tool_policy": { "max_rounds": 2, "blocklist": ["drop"] },
                    "parameters": { "temperature": 0.2, "top_k": null },
                },
            },
            "tools": { "Lookup_Order": { "name": "Lookup_Order", "description": "d", "parameters": { "type": "object", "properties": {} } } },
        })
    }

    fn problems(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut value = pack();
        change(&mut value);
        let invalid = Pack::parse(&value.to_string()).expect_err("this pack is wrong");
        invalid.0.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn a_pack_is_read_with_its_defaults() {
        let pack = Pack::parse(&pack().to_string()).expect("a pack");
        let prompt = &pack.prompts["help"];
        assert_eq!((prompt.tool_policy.max_rounds, prompt.tool_policy.max_tool_calls_per_turn), (2, 10));
        assert_eq!(prompt.tool_policy.tool_choice, "auto");
        assert_eq!(pack.entry(None), Ok("help"));
    }

    #[test]
    fn every_problem_names_its_path() {
        assert_eq!(problems(|p| p["id"] = json!("Bad Id")), ["/id"]);
        assert_eq!(problems(|p| p["version"] = json!("1.2")), ["/version"]);
        assert_eq!(problems(|p| p["prompts"] = json!({})), ["/prompts"]);
        assert_eq!(
            problems(|p| p["prompts"]["help"]["parameters"]["temperature"] = json!(3)),
            ["/prompts/help/parameters/temperature"]
        );
        assert_eq!(problems(|p| p["tools"]["Lookup_Order"]["name"] = json!("1x")), ["/tools/Lookup_Order/name"]);
        assert_eq!(problems(|p| p["surprise"] = json!(1)), [""]);
        assert_eq!(
            problems(|p| {
                p.as_object_mut().expect("an object").remove("template_engine");
            }),
            [""]
        );
        assert_eq!(
            problems(|p| p["agents"] = json!({ "entry": "x", "members": { "help": {}, "y": {} } })),
            ["/agents/entry", "/agents/members/y"]
        );
        assert_eq!(Pack::parse("{").expect_err("cut off").0[0].path, "");
    }

    #[test]
    fn a_schema_that_the_pack_names_is_not_looked_at() {
        let mut value = pack();
        value["$schema"] = json!("http://127.0.0.1:1/nobody-listens.json");
        assert!(Pack::parse(&value.to_string()).is_ok());
    }

    #[test]
    fn the_entry_is_asked_for_or_evident() {
        let mut value = pack();
        value["prompts"]["other"] = value["prompts"]["help"].clone();
        let two = Pack::parse(&value.to_string()).expect("a pack");
        assert!(two.entry(None).is_err() && two.entry(Some("missing")).is_err());
        assert_eq!(two.entry(Some("other")), Ok("other"));
        value["prompts"]["default"] = value["prompts"]["help"].clone();
        assert_eq!(Pack::parse(&value.to_string()).expect("a pack").entry(None), Ok("default"));
        value["agents"] = json!({ "entry": "other", "members": { "other": {} } });
        assert_eq!(Pack::parse(&value.to_string()).expect("a pack").entry(None), Ok("other"));
    }
}
