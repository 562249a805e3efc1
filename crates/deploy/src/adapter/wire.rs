//! Requests and answers as they are on the wire.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::LONGEST_LINE;
use crate::failure::{Failure, Problems};

const PARSE: i32 = -32700;
const METHOD_NOT_FOUND: i32 = -32601;
const INTERNAL: i32 = -32603;

/// A request, as far as it was understood.
#[derive(Deserialize)]
pub struct Request {
    #[serde(default)]
    pub method: String,
    #[serde(default)]
    pub params: Option<Value>,
    /// Goes back as it came.
    #[serde(default)]
    pub id: Option<Box<RawValue>>,
}

/// Why there is no result.
#[derive(Debug, Serialize)]
pub struct Error {
    pub code: i32,
    pub message: String,
}

impl Error {
    pub fn unknown(method: &str) -> Self {
        Self { code: METHOD_NOT_FOUND, message: format!("method not found: {method}") }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self { code: INTERNAL, message: message.into() }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::internal(failure.to_string())
    }
}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        Self::internal(problems.to_string())
    }
}

impl Request {
    pub fn parse(line: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(line).map_err(|error| Error { code: PARSE, message: format!("parse error: {error}") })
    }

    /// The parameters; the protocol has one code for these and for lines that are no JSON.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let params = self.params.clone().unwrap_or(Value::Null);
        serde_json::from_value(params)
            .map_err(|error| Error { code: PARSE, message: format!("invalid params: {error}") })
    }
}

/// An answer without its line's end.
pub fn answer(id: Option<&RawValue>, result: Result<Value, Error>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Error>,
        id: Option<&'a RawValue>,
    }
    let write = |result: Result<Value, Error>| {
        let (result, error) = match result {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        serde_json::to_vec(&Answer { jsonrpc: "2.0", result, error, id }).expect("an answer is JSON")
    };
    let line = write(result);
    if line.len() < LONGEST_LINE {
        return line;
    }
    write(Err(Error::internal(format!("the answer has {} bytes, a line holds {LONGEST_LINE}", line.len()))))
}
