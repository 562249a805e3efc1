//! What a server says about its tools.

use api::omnia::Operation;
use api::omnia::names::digest;
use api::omnia::tools::input_schema;
use serde_json::Value;

use crate::client::Error;

/// Tools of one server that are looked at. Whoever has more can filter.
pub(crate) const MOST_TOOLS: usize = 2000;
/// How much of a description is kept.
const MOST_WORDS: usize = 1024;
/// How large the schemas of one tool may be.
pub(crate) const MOST_SCHEMA: usize = 128 << 10;
/// How long a name may be for every model.
const LONGEST_NAME: usize = 64;

/// A tool that a server says it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What a model may call it.
    pub name: String,
    /// What its server calls it, where that is another name.
    pub remote_name: Option<String>,
    /// What it does.
    pub description: String,
    /// JSON Schema of what it takes.
    pub input_schema: Value,
    /// JSON Schema of what it answers.
    pub output_schema: Option<Value>,
    /// Where it is called.
    pub endpoint: String,
    /// How it is called, if it is an operation of an OpenAPI document.
    pub operation: Option<Operation>,
    /// Why it cannot be used all the same.
    pub problem: Option<Problem>,
}

/// Why something cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self { reason: error.reason(), message: error.to_string() }
    }
}

impl Found {
    /// Checks what the server said, and cuts what is too long to keep.
    pub(crate) fn checked(mut self) -> Self {
        if self.description.chars().count() > MOST_WORDS {
            self.description = self.description.chars().take(MOST_WORDS - 1).chain(['…']).collect();
        }
        if self.problem.is_none() {
            self.problem = self.defect();
        }
        if self.problem.is_some() {
            (self.input_schema, self.output_schema) = (Value::Null, None);
        }
        self
    }

    fn defect(&self) -> Option<Problem> {
        if !self.input_schema.is_object() {
            return Some(Problem::new("InvalidSchema", "its input schema is no object"));
        }
        let schemas = std::iter::once(&self.input_schema).chain(&self.output_schema);
        if schemas.map(weight).sum::<usize>() > MOST_SCHEMA {
            return Some(Problem::new(
                "SchemaTooLarge",
                format!("its schemas take more than {} KiB", MOST_SCHEMA >> 10),
            ));
        }
        let schemas = std::iter::once(&self.input_schema).chain(&self.output_schema);
        schemas
            .filter_map(|schema| input_schema(schema).err())
            .map(|error| Problem::new("InvalidSchema", format!("its schema is no JSON Schema: {error}")))
            .next()
    }
}

/// How many bytes a value takes when it is written.
pub(crate) fn weight(value: &Value) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

/// A name that packs and models allow, made from any name; names that differ stay different.
pub(crate) fn tool_name(raw: &str) -> String {
    let mut name: String = raw.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    if name.len() > LONGEST_NAME {
        name.truncate(LONGEST_NAME - 9);
        name = format!("{name}_{}", &digest([raw])[..8]);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_one_that_models_allow() {
        assert_eq!(tool_name("get-sum"), "get_sum");
        assert_eq!(tool_name("9.lives"), "_9_lives");
        assert_eq!(tool_name(""), "_");
        let (a, b) = (tool_name(&"x".repeat(70)), tool_name(&"x".repeat(71)));
        assert_eq!((a.len(), b.len()), (64, 64));
        assert_ne!(a, b);
    }
}
