//! From a template to the text that the model is told. Pure.

use std::collections::BTreeMap;

use api::omnia::pack::{Pack, Prompt};
use serde_json::{Map, Value};

/// Fragments may hold fragments, not for ever.
const DEEPEST: usize = 8;

/// Fills a prompt's template in.
pub(crate) fn render(
    pack: &Pack,
    prompt: &Prompt,
    model: Option<&str>,
    given: &Map<String, Value>,
) -> Result<String, String> {
    let values = values(prompt, given)?;
    let special = model.and_then(|model| prompt.model_overrides.get(model));
    let template = special.and_then(|special| special.system_template.as_ref()).unwrap_or(&prompt.system_template);
    let around = |text: Option<&String>| text.cloned().unwrap_or_default();
    let before = around(special.and_then(|special| special.system_template_prefix.as_ref()));
    let after = around(special.and_then(|special| special.system_template_suffix.as_ref()));
    let marks = marks(&pack.template_engine.syntax);
    fill(&format!("{before}{template}{after}"), &marks, &values, &pack.fragments, 0)
}

/// What stands before and after a variable, e.g. `{{` and `}}`.
fn marks(syntax: &str) -> (String, String) {
    let known = syntax.split_once("variable").filter(|(open, close)| !open.is_empty() && !close.is_empty());
    known.map_or_else(|| ("{{".into(), "}}".into()), |(open, close)| (open.trim().into(), close.trim().into()))
}

/// The value of every variable.
fn values(prompt: &Prompt, given: &Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let mut values: BTreeMap<String, String> = given.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    for variable in &prompt.variables {
        if values.contains_key(&variable.name) {
            continue;
        }
        match &variable.default {
            Some(default) => drop(values.insert(variable.name.clone(), text(default))),
            None if variable.required => {
                return Err(format!("the prompt needs a value for the variable {}", variable.name));
            }
            None => drop(values.insert(variable.name.clone(), String::new())),
        }
    }
    Ok(values)
}

/// Replaces variables and fragments; what is neither stays as it is written.
fn fill(
    template: &str,
    marks: &(String, String),
    values: &BTreeMap<String, String>,
    fragments: &BTreeMap<String, String>,
    depth: usize,
) -> Result<String, String> {
    let (open, close) = marks;
    let mut filled = String::new();
    let mut rest = template;
    while let Some(start) = rest.find(open.as_str()) {
        let Some(length) = rest[start + open.len()..].find(close.as_str()) else { break };
        let (inside, end) =
            (&rest[start + open.len()..start + open.len() + length], start + open.len() + length + close.len());
        let name = inside.trim().trim_start_matches('.');
        let fragment = fragments.get(name.strip_prefix("fragments.").unwrap_or(name));
        filled.push_str(&rest[..start]);
        if let Some(value) = values.get(name) {
            filled.push_str(value);
        } else if let Some(fragment) = fragment {
            if depth >= DEEPEST {
                return Err(format!("the fragment {name} holds itself"));
            }
            filled.push_str(&fill(fragment, marks, values, fragments, depth + 1)?);
        } else {
            filled.push_str(&rest[start..end]);
        }
        rest = &rest[end..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(syntax: &str, template: &str, given: &Value) -> Result<String, String> {
        let pack = json!({ "id": "p", "name": "P", "version": "1.0.0", "template_engine": { "version": "v1", "syntax": syntax },
            "fragments": { "greeting": "Hello {{who}}", "loop": "{{loop}}" },
            "prompts": { "a": { "id": "a", "name": "A", "version": "1.0.0", "system_template": template,
                "variables": [{ "name": "who", "type": "string", "required": true }, { "name": "tone", "type": "string", "required": false, "default": "kind" }],
                "model_overrides": { "big": { "system_template_prefix": "Think. " } } } } });
        let pack = Pack::parse(&pack.to_string()).expect("a pack");
        render(&pack, &pack.prompts["a"], Some("big"), given.as_object().expect("an object"))
    }

    #[test]
    fn variables_defaults_and_fragments_are_filled_in() {
        let text = rendered("{{variable}}", "{{ greeting }}, be {{.tone}}. {{unknown}} {{", &json!({ "who": "Ada" }));
        assert_eq!(text, Ok("Think. Hello Ada, be kind. {{unknown}} {{".into()));
        assert_eq!(rendered("${variable}", "${who} {{who}}", &json!({ "who": 1 })), Ok("Think. 1 {{who}}".into()));
    }

    #[test]
    fn what_is_missing_or_endless_is_said() {
        assert!(rendered("{{variable}}", "{{who}}", &json!({})).is_err_and(|error| error.contains("who")));
        assert!(rendered("{{variable}}", "{{loop}}", &json!({ "who": "x" })).is_err());
    }
}
