//! What the files say: the pack, and the part of an arena's manifest that is about deployment.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

/// The deployment's configuration for an environment, as JSON. An arena's manifest has it under `spec.deploy`, an
/// environment's fields over the common ones; any other file is the configuration itself.
pub fn config(file: &Path, environment: Option<&str>, provider: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read {}: name the configuration with --config FILE", file.display()))?;
    let value: Value = serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", file.display()))?;
    choose(&value, environment, provider).with_context(|| format!("in {}", file.display()))
}

fn choose(value: &Value, environment: Option<&str>, provider: &str) -> anyhow::Result<String> {
    let deploy = match (&value["spec"]["deploy"], &value["deploy"]) {
        (deploy @ Value::Object(_), _) | (_, deploy @ Value::Object(_)) => deploy.clone(),
        _ => {
            if let Some(name) = environment.filter(|_| value["kind"].is_string()) {
                bail!("there is no spec.deploy, so no environment {name:?}");
            }
            return Ok(value.to_string());
        }
    };
    if let Some(other) = deploy["provider"].as_str().filter(|other| *other != provider) {
        bail!("spec.deploy.provider is {other:?}, not {provider:?}");
    }
    let mut config: Map<String, Value> = deploy["config"].as_object().cloned().unwrap_or_default();
    if let Some(name) = environment {
        let Some(own) = deploy["environments"].get(name) else {
            let known: Vec<&String> = deploy["environments"].as_object().into_iter().flat_map(Map::keys).collect();
            bail!("there is no environment {name:?} in spec.deploy.environments; there are {known:?}");
        };
        config.extend(own["config"].as_object().cloned().unwrap_or_default());
    }
    Ok(Value::Object(config).to_string())
}

/// The text of the pack, byte for byte.
pub fn pack(file: Option<&Path>) -> anyhow::Result<String> {
    let file = file.context("name the pack with --pack FILE")?;
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_environment_overrides_field_by_field() {
        let manifest = json!({ "kind": "Arena", "spec": { "deploy": { "provider": "omnia",
            "config": { "workspace": "dev", "labels": { "a": "1" } },
            "environments": { "live": { "config": { "workspace": "prod" } } } } } });
        let chosen =
            |name: Option<&str>| choose(&manifest, name, "omnia").map(|text| text.parse::<Value>().expect("JSON"));
        assert_eq!(chosen(None).expect("fine")["workspace"], "dev");
        let live = chosen(Some("live")).expect("fine");
        assert_eq!((&live["workspace"], &live["labels"]["a"]), (&json!("prod"), &json!("1")));
        assert!(chosen(Some("moon")).expect_err("unknown").to_string().contains("[\"live\"]"));
        assert!(choose(&manifest, None, "agentcore").is_err());
        let plain = choose(&json!({ "workspace": "x" }), Some("any"), "omnia").expect("fine");
        assert_eq!(plain, r#"{"workspace":"x"}"#);
    }
}
