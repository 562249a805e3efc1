//! Scenarios: what is sent, in YAML.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// One file: steps in order, in a namespace of its own (`$(ns)`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(skip)]
    pub name: String,
    /// What it shows.
    #[expect(dead_code, reason = "for the reader of the file")]
    about: String,
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `POST /api/v1/namespaces/$(ns)/configmaps`.
    #[serde(rename = "do")]
    pub action: String,
    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// The body, sent as it is.
    pub raw: Option<String>,
    /// `merge`, `json`, `strategic`, `apply`, `yaml` or a media type; JSON when absent.
    #[serde(rename = "as")]
    pub content_type: Option<String>,
    pub accept: Option<String>,
    /// Values to remember from the answer, by JSON pointer.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
    /// Repeat until the answer has this value at this pointer.
    pub until: Option<(String, Value)>,
    /// Pointers that are not compared.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Whether the answer is compared at all; preparation is not.
    #[serde(default)]
    pub prepare: bool,
}

impl Step {
    pub fn title(&self) -> String {
        let kind = self.content_type.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        let body = self.body.as_ref().map(Value::to_string).or_else(|| self.raw.clone()).unwrap_or_default();
        let short: String = body.chars().take(160).collect();
        format!("{}{kind} {short}", self.action)
    }

    pub fn media_type(&self) -> &str {
        match self.content_type.as_deref() {
            None => "application/json",
            Some("merge") => "application/merge-patch+json",
            Some("json") => "application/json-patch+json",
            Some("strategic") => "application/strategic-merge-patch+json",
            Some("apply") => "application/apply-patch+yaml",
            Some("yaml") => "application/yaml",
            Some(other) => other,
        }
    }
}

/// All scenarios, by name.
pub fn load() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/scenarios");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path).unwrap();
            let scenario: Scenario =
                serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("scenario {name}: {error}"));
            Scenario { name, ..scenario }
        })
        .collect()
}
