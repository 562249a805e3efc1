//! Where two answers differ.

use std::fmt;

use serde_json::{Value, json};

use crate::client::Answer;

/// One place where the servers disagree.
pub struct Difference {
    /// `/status`, `/warnings`, `/body/metadata/labels/a`.
    pub place: String,
    pub kubernetes: Option<Value>,
    pub embedded: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "(absent)".to_owned(), Value::to_string);
        write!(
            out,
            "{}\n      kubernetes {}\n      embedded   {}",
            self.place,
            text(&self.kubernetes),
            text(&self.embedded)
        )
    }
}

pub fn answers(kubernetes: &Answer, embedded: &Answer, ignore: &[String]) -> Vec<Difference> {
    let whole = |answer: &Answer| json!({"status": answer.status, "type": answer.content_type, "warnings": answer.warnings, "body": answer.body});
    let mut found = Vec::new();
    values("", Some(&whole(kubernetes)), Some(&whole(embedded)), &mut found);
    found.retain(|difference| !ignore.iter().any(|place| is_below(&difference.place, place)));
    found
}

fn is_below(place: &str, other: &str) -> bool {
    place.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn values(place: &str, left: Option<&Value>, right: Option<&Value>, found: &mut Vec<Difference>) {
    match (left, right) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let mut keys: Vec<&String> =
                left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))).collect();
            keys.sort();
            for key in keys {
                let key_text = key.replace('~', "~0").replace('/', "~1");
                values(&format!("{place}/{key_text}"), left.get(key), right.get(key), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                values(&format!("{place}/{index}"), Some(left), Some(right), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            found.push(Difference { place: place.to_owned(), kubernetes: left.cloned(), embedded: right.cloned() });
        }
    }
}
