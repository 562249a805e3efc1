//! Search: every kind, by name, label, description and the messages of conditions, as far as the caller can see.

use axum::Json;
use axum::extract::{Extension, State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::extract::{Query, check_namespace};
use crate::kinds::KINDS;
use crate::resources::{value, visible};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// What is looked for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Wanted {
    /// Words that must all be found.
    q: String,
    /// Only in this namespace.
    namespace: Option<String>,
    /// How many, 20 unless told, 100 at most.
    limit: Option<usize>,
}

/// `GET /api/v1/search`.
pub async fn search(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    check_namespace(wanted.namespace.as_deref())?;
    let words: Vec<String> = wanted.q.split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err(Error::bad_request("q: say what to look for"));
    }
    let mut found = Vec::new();
    for kind in KINDS {
        let objects = match visible(kind, &app, &caller, wanted.namespace.as_deref(), None).await {
            // Not for this caller, or a dialect that is not installed here.
            Err(error) if error.is_forbidden() || error.is_not_found() => continue,
            objects => objects?,
        };
        for object in objects {
            let object = value(&object);
            if let Some((rank, field)) = place(&object, &words) {
                let metadata = &object["metadata"];
                let hit = json!({
                    "kind": kind.name, "plural": kind.plural,
                    "namespace": metadata["namespace"], "name": metadata["name"],
                    "field": field, "phase": object["status"]["phase"],
                });
                found.push((rank, hit));
            }
        }
    }
    let total = found.len();
    found.sort_by_key(|(rank, hit)| (*rank, hit["namespace"].to_string(), hit["name"].to_string()));
    let limit = wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let results: Vec<Value> = found.into_iter().map(|(_, hit)| hit).take(limit).collect();
    Ok(Json(json!({"results": results, "total": total})))
}

/// The best place where all words are found, and how good it is: a name that begins so is better than one that holds
/// it, and that is better than a text.
fn place(object: &Value, words: &[String]) -> Option<(u8, &'static str)> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_lowercase();
    if words.len() == 1 && name.starts_with(&words[0]) {
        return Some((0, "name"));
    }
    let holds = |text: &str| words.iter().all(|word| text.contains(word.as_str()));
    if holds(&name) {
        return Some((1, "name"));
    }
    let labels = object["metadata"].get("labels").map(Value::to_string).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
    let places = [
        (2, "labels", labels.to_lowercase()),
        (3, "description", text(&object["spec"]["description"]) + &text(&object["spec"]["profile"])),
        (
            4,
            "conditions",
            object["status"].get("conditions").map(|value| value.to_string().to_lowercase()).unwrap_or_default(),
        ),
    ];
    places.into_iter().find(|(_, _, text)| holds(text)).map(|(rank, field, _)| (rank, field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_texts_and_every_word_counts() {
        let task = json!({
            "metadata": {"name": "fix-login", "labels": {"team": "Accounts"}},
            "spec": {"description": "Mend the cookie banner"},
            "status": {"conditions": [{"message": "container agent ended with exit code 2"}]},
        });
        let found = |text: &str| place(&task, &text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(found("fix"), Some((0, "name")));
        assert_eq!(found("login"), Some((1, "name")));
        assert_eq!(found("accounts"), Some((2, "labels")));
        assert_eq!(found("cookie mend"), Some((3, "description")));
        assert_eq!(found("code 2"), Some((4, "conditions")));
        assert_eq!(found("cookie accounts"), None);
    }
}
