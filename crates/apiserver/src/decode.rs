//! Request bodies: bounded reading, JSON or YAML, and what strict decoding has to say.

use std::fmt;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use machinery::protobuf;
use machinery::status::Status;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::call::Call;

/// Kubernetes reads no more than this from a request.
pub const LIMIT: usize = 3 * 1024 * 1024;

/// A body taken apart.
#[derive(Debug)]
pub struct Decoded {
    /// What it says.
    pub value: Value,
    /// What strict decoding objects to: fields given twice.
    pub duplicates: Vec<String>,
}

/// Reads a whole body, within limits of size and time.
pub async fn read(body: Body, patience: Duration) -> Result<Bytes, Status> {
    let collect = Limited::new(body, LIMIT).collect();
    match tokio::time::timeout(patience, collect).await {
        Err(_) => Err(Status::new(408, "Timeout", "the request body did not arrive in time")),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Status::too_large(format!("Request entity too large: limit is {LIMIT}")))
        }
        Ok(Err(error)) => Err(Status::bad_request(format!("the request body could not be read: {error}"))),
    }
}

/// The media type of a body, without parameters, in lower case. Empty means JSON, as everywhere.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Decodes an object sent as JSON or YAML.
pub fn object(headers: &HeaderMap, body: &[u8]) -> Result<Decoded, Status> {
    match media_type(headers).as_str() {
        "" | "application/json" | "*/*" => json(body),
        "application/yaml" | "application/x-yaml" | "text/yaml" => yaml(body),
        "application/vnd.kubernetes.protobuf" => protobuf(body),
        _ => Err(unsupported()),
    }
}

/// Decodes an object of a kind; what is no object at all is told which kind was expected.
pub fn object_of(call: &Call, body: &[u8]) -> Result<Decoded, Status> {
    object(&call.headers, body).map_err(|status| match status.code {
        400 => crate::write::unrecognized(&call.kind, &status.message),
        _ => status,
    })
}

/// Decodes a JSON patch or merge patch.
pub fn patch(body: &[u8]) -> Result<Decoded, Status> {
    json(body).map_err(|status| {
        let why = status.message.rsplit("json parse error: ").next().unwrap_or_default();
        Status::bad_request(format!("error decoding patch: {why}"))
    })
}

/// Decodes a built-in object that a Go client sent as protobuf; whatever else comes that way is refused.
fn protobuf(body: &[u8]) -> Result<Decoded, Status> {
    match protobuf::decode(body) {
        Ok(value) => Ok(Decoded { value, duplicates: Vec::new() }),
        Err(error @ protobuf::Error::Damaged(_)) => Err(Status::bad_request(error.to_string())),
        Err(error) => {
            Err(Status::unsupported_media_type(format!("{error}; send application/json or application/yaml")))
        }
    }
}

/// 415 with the formats that are read.
fn unsupported() -> Status {
    Status::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// Decodes JSON.
pub fn json(body: &[u8]) -> Result<Decoded, Status> {
    let mut duplicates = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Node { duplicates: &mut duplicates }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))?;
    Ok(Decoded { value, duplicates })
}

/// Decodes YAML, of which JSON is a part.
pub fn yaml(body: &[u8]) -> Result<Decoded, Status> {
    // Clients that speak of YAML mostly send JSON, which is read several times faster as what it is.
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok(decoded) = json(body)
    {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| Status::bad_request(format!("error converting YAML to JSON: not UTF-8: {error}")))?;
    let refuse = |error: &serde_saphyr::Error| {
        let error = error.without_snippet().to_string();
        Status::bad_request(format!("error converting YAML to JSON: yaml: {}", error.trim_start_matches("error: ")))
    };
    // Only `true` and `false` are booleans: a name may well be `y` or `no`.
    let strict = serde_saphyr::options! { strict_booleans: true };
    match serde_saphyr::from_str_with_options::<Value>(text, strict) {
        Ok(value) => Ok(Decoded { value, duplicates: Vec::new() }),
        Err(first) => {
            let options = serde_saphyr::options! {
                strict_booleans: true,
                duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            };
            let value = serde_saphyr::from_str_with_options::<Value>(text, options).map_err(|_| refuse(&first))?;
            let duplicate = match first.without_snippet() {
                serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => key.clone(),
                other => other.to_string(),
            };
            Ok(Decoded { value, duplicates: vec![duplicate] })
        }
    }
}

/// Builds a [`Value`] and notes the fields that occur twice, which serde's own would pass over.
struct Node<'a> {
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let known = self.duplicates.len();
            let Some(item) = items.next_element_seed(Node { duplicates: &mut *self.duplicates })? else { break };
            prefix(&mut self.duplicates[known..], &format!("[{}]", list.len()));
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let known = self.duplicates.len();
            let value = entries.next_value_seed(Node { duplicates: &mut *self.duplicates })?;
            prefix(&mut self.duplicates[known..], &key);
            if fields.contains_key(&key) {
                self.duplicates.push(key.clone());
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

/// Puts a parent in front of paths found below it.
fn prefix(paths: &mut [String], parent: &str) {
    for path in paths {
        *path = if path.starts_with('[') { format!("{parent}{path}") } else { format!("{parent}.{path}") };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_named_by_path() {
        let decoded = json(br#"{"a":{"b":[{"c":1,"c":2}]},"a2":1}"#).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(decoded.duplicates, ["a.b[0].c"]);
        assert_eq!(decoded.value["a"]["b"][0]["c"], 2);
    }

    #[test]
    fn depth_and_bad_utf8_are_refused() {
        let deep = "[".repeat(100_000);
        assert_eq!(json(deep.as_bytes()).map_err(|error| error.code).err(), Some(400));
        assert_eq!(json(b"{\"a\":\"\xff\"}").map_err(|error| error.code).err(), Some(400));
        assert_eq!(yaml(b"a: \xff").map_err(|error| error.code).err(), Some(400));
    }
}
